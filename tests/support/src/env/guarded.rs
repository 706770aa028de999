//! A child process that cannot outlive this process, however this one ends.
//!
//! Every child runs under a small shell that holds the reading end of a pipe. The kernel closes the
//! writing end when this process ends (return, panic, Ctrl-C, SIGKILL), and the shell then kills the
//! child. A parent-death signal would need unsafe code, and would fire when the *thread* that
//! started the child ends, which for tests is much too early. The shell is in a process group of
//! its own, so that Ctrl-C in a terminal reaches this process alone and the order of stopping stays ours.

use std::{
    ffi::OsStr,
    fs::File,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::Error;
use crate::waiting::PATIENCE;

const GUARD: &str = r#"
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
echo $child >"$PID_FILE.new" && mv "$PID_FILE.new" "$PID_FILE"
( cat <&3 >/dev/null; kill -KILL $child 2>/dev/null ) 2>/dev/null &
watcher=$!
exec 3<&-
wait $child; code=$?
kill -KILL $watcher 2>/dev/null
[ -z "${REMOVE_AFTER:-}" ] || rm -rf "$REMOVE_AFTER"
exit $code
"#;

/// A running child process; dropping it kills it.
#[derive(Debug)]
pub struct Guarded {
    name: String,
    guard: Child,
    pid: u32,
    log: PathBuf,
}

/// The program to start.
#[derive(Debug)]
pub struct Program<'a> {
    /// The binary.
    pub path: &'a Path,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables on top of this process's own.
    pub variables: Vec<(String, String)>,
    /// The file to which its standard output and error are appended. Its pid is kept beside it.
    pub log: PathBuf,
    /// A folder that is deleted when the program has ended, even if this process does not exist any more.
    pub remove_after: Option<PathBuf>,
}

impl Guarded {
    /// Starts `program`.
    pub fn start(program: &Program<'_>) -> Result<Self, Error> {
        let name = program
            .path
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or("program")
            .to_owned();
        let log = File::options()
            .create(true)
            .append(true)
            .open(&program.log)?;
        let pid_file = program.log.with_extension("pid");
        let _ = std::fs::remove_file(&pid_file);
        let guard = Command::new("/bin/sh")
            .arg("-c")
            .arg(GUARD)
            .arg("guard")
            .arg(program.path)
            .args(&program.arguments)
            .envs(program.variables.iter().cloned())
            .env("PID_FILE", &pid_file)
            .env(
                "REMOVE_AFTER",
                program.remove_after.as_deref().unwrap_or(Path::new("")),
            )
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let started = Instant::now();
        let pid = loop {
            if let Ok(text) = std::fs::read_to_string(&pid_file) {
                break text.trim().parse()?;
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{name} did not start within {PATIENCE:?}").into());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok(Self {
            name,
            guard,
            pid,
            log: program.log.clone(),
        })
    }

    /// The process id of the program itself.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file that holds its standard output and error.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The exit status, if the program has ended.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        Ok(self.guard.try_wait()?)
    }

    /// Sends a signal by its name without SIG: `TERM`, `KILL`, `STOP`, `CONT`.
    pub fn signal(&self, signal: &str) -> Result<(), Error> {
        let status = Command::new("/bin/sh")
            .args(["-c", r#"kill -"$1" "$2""#, "signal", signal])
            .arg(self.pid.to_string())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("sending {signal} to {} failed: {status}", self.name).into())
        }
    }

    /// Waits for the end of the program.
    pub fn wait(&mut self, at_most: Duration) -> Result<ExitStatus, Error> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.guard.try_wait()? {
                return Ok(status);
            }
            if started.elapsed() > at_most {
                return Err(format!("{} has not ended after {at_most:?}", self.name).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Resident memory in bytes, as the kernel counts it.
    pub fn resident_bytes(&self) -> Result<u64, Error> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .ok_or("no VmRSS")?;
        let kibibytes: u64 = line
            .split_whitespace()
            .next()
            .ok_or("empty VmRSS")?
            .parse()?;
        Ok(kibibytes * 1024)
    }

    /// The processor time that it has used, of all its threads.
    pub fn processor_time(&self) -> Result<Duration, Error> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // The name in parentheses may contain spaces; the 12th and 13th fields after it are user and system time.
        let (_, fields) = stat.rsplit_once(')').ok_or("no name")?;
        let ticks = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(str::parse::<u64>);
        let ticks = ticks.sum::<Result<u64, _>>()?;
        // Linux shows these times in hundredths of a second on every platform.
        Ok(Duration::from_millis(ticks * 10))
    }

    /// The last lines of its log, for messages.
    pub fn last_lines(&self, count: usize) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(count);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Closing the pipe makes the shell kill the child. Waiting ensures that ports and files are free.
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}
