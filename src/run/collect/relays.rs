//! The relays of a soak, opened once: keys read, embedded ones started, clients built.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::Caller;
use crate::evidence::Sample;
use crate::plan::{Cell, Plan, Slot};
use crate::probe::call::{Call, call_late};
use crate::probe::cancel::Cancel;
use crate::probe::descriptors::make_room;
use crate::run::target::{Target, TargetError};

/// Calls for whose sockets room is made in advance: more than a soak has open at a time.
const ROOM: u64 = 256;

/// Real relays, by the ids of their cells.
pub struct Relays {
    run_id: String,
    targets: HashMap<String, Target>,
}

/// A cell whose relay cannot be asked.
#[derive(Debug)]
pub struct Unopened {
    /// The cell's name.
    pub cell: String,
    /// Why.
    pub error: TargetError,
}

impl Relays {
    /// Opens the relays of these cells, and says which cannot be.
    pub async fn open(plan: &Plan, cells: &[&Cell], base: &Path) -> (Self, Vec<Unopened>) {
        make_room(ROOM).await;
        let (mut targets, mut unopened) = (HashMap::new(), Vec::new());
        for cell in cells {
            match Target::open(cell, base, plan.sampling.seed).await {
                Ok(target) => {
                    targets.insert(cell.id.clone(), target);
                }
                Err(error) => unopened.push(Unopened {
                    cell: cell.name(),
                    error,
                }),
            }
        }
        let run_id = super::run_id(plan);
        (Self { run_id, targets }, unopened)
    }

    /// Whether the relay of a cell was opened.
    pub fn has(&self, cell: &Cell) -> bool {
        self.targets.contains_key(&cell.id)
    }

    /// Stops the embedded ones.
    pub async fn stop(self) {
        for target in self.targets.into_values() {
            if let Some(embedded) = target.embedded {
                embedded.stop().await;
            }
        }
    }
}

impl Caller for Relays {
    async fn call(&self, cell: &Cell, slot: Slot, lag: Duration, off: Cancel) -> Option<Sample> {
        let target = self.targets.get(&cell.id)?;
        let call = Call::new(cell, slot, &target.endpoint, &self.run_id);
        call_late(&target.transport, call, lag, off).await
    }

    fn base_url(&self, cell: &Cell) -> String {
        let target = self.targets.get(&cell.id);
        target.map_or_else(String::new, |it| it.endpoint.base().to_owned())
    }
}
