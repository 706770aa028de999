//! The machines of one load balancer.

use super::parts::Machine;
use capo_core::ObjectName;

/// Machines in the order of their names. Every event goes through all of them several times, and there are few:
/// a sorted list does that faster than a tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Machines(Vec<(ObjectName, Machine)>);

impl Machines {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    fn position(&self, name: &ObjectName) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.cmp(name))
    }

    pub(super) fn get(&self, name: &ObjectName) -> Option<&Machine> {
        let index = self.position(name).ok()?;
        self.0.get(index).map(|(_, machine)| machine)
    }

    pub(super) fn get_mut(&mut self, name: &ObjectName) -> Option<&mut Machine> {
        let index = self.position(name).ok()?;
        self.0.get_mut(index).map(|(_, machine)| machine)
    }

    /// Takes a machine in that is not there yet.
    pub(super) fn insert(&mut self, name: ObjectName, machine: Machine) {
        if let Err(index) = self.position(&name) {
            self.0.insert(index, (name, machine));
        }
    }

    pub(super) fn remove(&mut self, name: &ObjectName) -> Option<Machine> {
        let index = self.position(name).ok()?;
        Some(self.0.remove(index).1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ObjectName, &Machine)> {
        self.0.iter().map(|(name, machine)| (name, machine))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&ObjectName, &mut Machine)> {
        self.0.iter_mut().map(|(name, machine)| (&*name, machine))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Machine> + Clone {
        self.0.iter().map(|(_, machine)| machine)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Machine> {
        self.0.iter_mut().map(|(_, machine)| machine)
    }
}
