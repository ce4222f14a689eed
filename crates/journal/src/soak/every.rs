//! One short life of a store with a fault at exactly one call: for every call, in turn.

use domain::{PrincipalId, SessionId};

use super::{Run, Session};
use crate::storage::power::{Fault, FaultyCall, Sabotage};

/// About as many changes as two sessions make in [`Run::live_in`].
const CHANGES_OF_TWO: u64 = 60;

/// What happens after the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The process goes on, or another takes its place.
    Restart,
    /// The machine loses power.
    PowerLoss,
}

/// Lives the life with `fault`; says whether it happened, which it does not once its number is
/// past the last call.
///
/// # Errors
/// What was lost, repeated or made up.
pub fn fault_at(fault: Fault, then: Then) -> Result<bool, String> {
    let say = |why| format!("{fault:?} then {then:?}: {why}");
    let mut run = Run::new(fault.nth, None);
    run.storage.arm(Some(fault));
    run.live().map_err(say)?;
    let happened = run.storage.faults() > 0;
    run.storage.arm(None);
    match then {
        Then::Restart => run.storage.restart(),
        Then::PowerLoss => run.cut_power(),
    }
    run.look_at_everything().map_err(say)?;
    run.cut_power();
    run.look_at_everything().map_err(say)?;
    Ok(happened)
}

/// Lives until the process dies at some call that `seed` picks, and has the opening that follows
/// meet `fault` and then a power loss; says whether it met it.
///
/// # Errors
/// What was lost, repeated, made up, or not told.
pub fn recovery_fault_at(seed: u64, first: Then, fault: Fault) -> Result<bool, String> {
    recovery_fault_in(Run::new(seed, None), first, fault)
        .map_err(|why| format!("seed {seed}, {first:?}, then {fault:?}: {why}"))
}

/// As [`recovery_fault_at`], with a sync that does nothing, which some call must make noticed.
///
/// # Errors
/// As [`recovery_fault_at`].
pub fn sabotaged_recovery_fault_at(
    seed: u64,
    sabotage: Sabotage,
    first: Then,
    fault: Fault,
) -> Result<bool, String> {
    recovery_fault_in(Run::new(seed, Some(sabotage)), first, fault)
}

fn recovery_fault_in(mut run: Run, first: Then, fault: Fault) -> Result<bool, String> {
    let nth = 1 + run.chance.below(CHANGES_OF_TWO);
    run.storage.arm(Some(Fault {
        call: FaultyCall::Change,
        nth,
        errno: None,
    }));
    run.create()?;
    run.create()?;
    for at in 0..run.sessions.len() {
        run.live_in(at, "")?;
    }
    match first {
        Then::Restart => run.storage.restart(),
        Then::PowerLoss => run.cut_power(),
    }
    let faults = run.storage.faults();
    run.storage.arm(Some(fault));
    run.look_at_everything()?;
    let happened = run.storage.faults() > faults;
    for _ in 0..2 {
        run.cut_power();
        run.look_at_everything()?;
    }
    Ok(happened)
}

impl Run {
    /// Everything a session does, once. What fails is opened anew by the next step that needs it.
    fn live(&mut self) -> Result<(), String> {
        self.create()?;
        self.create()?;
        let long = "long ".repeat(domain::limits::BLOB_BYTES_MIN / 5 + 1);
        for at in 0..self.sessions.len() {
            // One is enough, and takes its time.
            let text = if at == 0 { &long } else { "" };
            self.live_in(at, text)?;
        }
        self.fork_first()?;
        self.delete()
    }

    fn live_in(&mut self, at: usize, text: &str) -> Result<(), String> {
        for step in 0..9 {
            if self.storage.is_dead() {
                return Ok(());
            }
            if self.sessions[at].writer.is_none() {
                self.open(at)?;
            }
            let is_open = self.sessions[at].expected.open.is_some();
            match step {
                0 | 7 => self.append(at, false),
                1 if !is_open => self.start_message(at),
                2 | 4 if is_open => self.push_text(at),
                3 if is_open => self.flush(at),
                5 if is_open => self.append(at, true),
                6 => self.append_text(at, text),
                8 => self.save_meta(at),
                _ => Ok(()),
            }?;
        }
        Ok(())
    }

    fn fork_first(&mut self) -> Result<(), String> {
        let Some(Session { expected, .. }) = self.sessions.first() else {
            return Ok(());
        };
        if self.storage.is_dead() || expected.acked.is_empty() {
            return Ok(());
        }
        let at = domain::EventSeq(expected.acked.len() as u64);
        let to: SessionId = self.new_id();
        self.fork_at(0, at, to, &PrincipalId::new("bob"))
    }
}
