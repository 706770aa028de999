//! The content of the gate board as a picture: the answers of Prometheus to the board's own queries over the
//! rollout of the cluster `demo`, drawn as SVG.

use std::fmt::Write as _;

use serde_json::Value;
use test_support::{env::Prometheus, monitoring::boards};

/// Pixels.
const LEFT: f64 = 190.0;
const WIDTH: f64 = 930.0;
const ROW: f64 = 26.0;
const CHART: f64 = WIDTH - LEFT - 20.0;

/// Grafana's names of colours, as its dark theme draws them.
const COLOURS: [(&str, &str); 7] = [
    ("green", "#56a64b"),
    ("orange", "#ff780a"),
    ("yellow", "#e0b400"),
    ("red", "#e02f44"),
    ("blue", "#3274d9"),
    ("purple", "#a352cc"),
    ("text", "#7b8087"),
];

/// A stretch of time in one state.
struct Stretch {
    from: f64,
    to: f64,
    state: String,
}

struct Picture {
    svg: String,
    y: f64,
    range: (f64, f64),
}

/// Draws the run.
pub(super) async fn draw(prometheus: &Prometheus, range: (f64, f64)) -> String {
    let mut picture = Picture {
        svg: String::new(),
        y: 46.0,
        range,
    };
    let seconds = range.1 - range.0;
    let of_demo = |query: &str| {
        let query = query.replace(r#"cluster_name=~"$wc""#, r#"cluster_name="demo""#);
        boards::filled_in(&query, "10s", seconds)
    };
    let [board, ..] = boards::all();
    for title in ["Gates", "Members"] {
        let panel = board
            .panels
            .iter()
            .find(|panel| panel.title == title)
            .unwrap();
        picture.heading(title);
        let states = panel.states();
        let answer = prometheus
            .range(&of_demo(&panel.queries[0].expression), range, 0.5)
            .await
            .unwrap();
        for series in sorted(&answer, &["gate", "machine"]) {
            let labels = &series["metric"];
            let name = labels["gate"].as_str().map_or_else(
                || {
                    format!(
                        "{}:{}",
                        labels["machine"].as_str().unwrap(),
                        labels["port"].as_str().unwrap()
                    )
                },
                str::to_owned,
            );
            picture.row(&name, stretches(series), |value| {
                let index = value.parse::<usize>().unwrap();
                states.get(index).cloned().unwrap_or_default()
            });
        }
    }
    picture.heading("Hold reasons");
    let reasons = board
        .panels
        .iter()
        .find(|panel| panel.title == "Hold reasons")
        .unwrap();
    let answer = prometheus
        .range(&of_demo(&reasons.queries[0].expression), range, 0.5)
        .await
        .unwrap();
    let mut rows: Vec<(String, Vec<Stretch>)> = Vec::new();
    for series in sorted(&answer, &["gate", "machine", "reason"]) {
        let labels = &series["metric"];
        let name = format!(
            "{} {}",
            labels["machine"].as_str().unwrap(),
            labels["gate"].as_str().unwrap()
        );
        let mut found = stretches(series);
        for stretch in &mut found {
            labels["reason"]
                .as_str()
                .unwrap()
                .clone_into(&mut stretch.state);
        }
        match rows.last_mut() {
            Some((last, stretches)) if *last == name => stretches.extend(found),
            _ => rows.push((name, found)),
        }
    }
    for (name, stretches) in rows {
        picture.row(&name, stretches, |reason| {
            (reason.to_owned(), "orange".to_owned())
        });
    }
    picture.heading("Alerts");
    let alerts =
        r#"max by (alertname, machine, gate) (ALERTS{alertstate="firing",cluster_name="demo"})"#;
    let answer = prometheus.range(alerts, range, 0.5).await.unwrap();
    for series in sorted(&answer, &["alertname", "gate"]) {
        let labels = &series["metric"];
        let what = labels["gate"]
            .as_str()
            .map_or_else(String::new, |gate| format!(" {gate}"));
        let label = format!(
            "{} {}{what}",
            labels["alertname"].as_str().unwrap(),
            labels["machine"].as_str().unwrap()
        );
        picture.row("firing", stretches(series), |_| {
            (label.clone(), "red".to_owned())
        });
    }
    picture.finished()
}

fn sorted<'a>(answer: &'a Value, labels: &[&str]) -> Vec<&'a Value> {
    let mut series: Vec<&Value> = answer["result"].as_array().unwrap().iter().collect();
    series.sort_by_key(|one| {
        labels
            .iter()
            .map(|label| one["metric"][label].to_string())
            .collect::<Vec<_>>()
    });
    series
}

/// The points of a series as stretches of one value; a gap of more than two points ends one.
fn stretches(series: &Value) -> Vec<Stretch> {
    let mut found: Vec<Stretch> = Vec::new();
    for point in series["values"].as_array().unwrap() {
        let (time, value) = (point[0].as_f64().unwrap(), point[1].as_str().unwrap());
        match found.last_mut() {
            Some(last) if last.state == value && time - last.to < 1.2 => last.to = time,
            last => {
                // A change lies between two points.
                if let Some(last) = last.filter(|last| time - last.to < 1.2) {
                    last.to = time;
                }
                found.push(Stretch {
                    from: time,
                    to: time,
                    state: value.to_owned(),
                });
            }
        }
    }
    found
}

impl Picture {
    fn x(&self, time: f64) -> f64 {
        LEFT + (time - self.range.0) / (self.range.1 - self.range.0) * CHART
    }

    fn heading(&mut self, text: &str) {
        self.y += 12.0;
        self.text(16.0, self.y + 12.0, "heading", text);
        self.y += 22.0;
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            self.svg,
            r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{text}</text>"#
        );
    }

    fn row(
        &mut self,
        name: &str,
        stretches: Vec<Stretch>,
        shown: impl Fn(&str) -> (String, String),
    ) {
        self.text(16.0, self.y + 17.0, "name", name);
        for Stretch { from, to, state } in stretches {
            let (label, colour) = shown(&state);
            let fill = COLOURS
                .iter()
                .find(|(name, _)| *name == colour)
                .map_or("none", |(_, fill)| fill);
            let (x, width) = (self.x(from), (self.x(to) - self.x(from)).max(1.5));
            let _ = writeln!(
                self.svg,
                r#"<rect x="{x:.1}" y="{:.1}" width="{width:.1}" height="{:.1}" fill="{fill}" rx="2"><title>{label}, {:.0} s</title></rect>"#,
                self.y + 2.0,
                ROW - 4.0,
                to - from,
            );
            // About six pixels a letter.
            let letters = f64::from(u16::try_from(label.len()).unwrap());
            if letters * 6.2 + 8.0 < width {
                self.text(x + 5.0, self.y + 17.0, "label", &label);
            }
        }
        self.y += ROW;
    }

    fn finished(mut self) -> String {
        let (top, bottom, seconds) = (50.0, self.y + 6.0, self.range.1 - self.range.0);
        let mut grid = String::new();
        let mut tick = 0.0;
        while tick <= seconds {
            let x = LEFT + tick / seconds * CHART;
            let _ = writeln!(
                grid,
                r#"<line x1="{x:.1}" y1="{top}" x2="{x:.1}" y2="{bottom:.1}" class="grid"/>"#
            );
            self.text(x, bottom + 16.0, "tick", &format!("{tick:.0} s"));
            tick += 15.0;
        }
        let height = bottom + 28.0;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"Inter, Helvetica, Arial, sans-serif\">\n\
             <style>text{{fill:#ccccdc}}.title{{font-size:17px;font-weight:600}}.note{{font-size:12px;fill:#8e8ea0}}.heading{{font-size:13px;font-weight:600}}\
             .name,.tick{{font-size:12px}}.tick{{fill:#8e8ea0;text-anchor:middle}}.label{{font-size:11px;fill:#fff;font-weight:500}}.grid{{stroke:#2f3037;stroke-width:1}}</style>\n\
             <rect width=\"{WIDTH}\" height=\"{height:.0}\" fill=\"#111217\"/>\n\
             <text x=\"16\" y=\"26\" class=\"title\">capo-rs / Rollout gates</text>\n\
             <text x=\"16\" y=\"43\" class=\"note\">Cluster demo: two machines are added, one pending, one in ERROR at first; they are not healthy yet when the oldest is to go. Alerts in quick time.</text>\n\
             {grid}{}</svg>\n",
            self.svg
        )
    }
}
