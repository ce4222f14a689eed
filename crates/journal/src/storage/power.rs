//! A storage in memory that can lose power: what was not synced may be gone, in part or whole.
//!
//! Of each file it keeps what everybody sees and what would be on the disk; of each directory the
//! same for its names. [`PowerStorage::power_loss`] takes the first back to the second, with some of
//! what lies between. [`PowerStorage::set_full`] takes its space. [`Fault`] makes the Nth call fail or end the process there; [`Sabotage`] turns
//! one kind of sync into nothing, to show that the tests would notice.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{Access, NotPlain, Storage, StoredFile};
use crate::chance::Chance;

mod content;
mod names;
mod sabotage;

use content::Content;
use names::{NameOp, Names};
pub use sabotage::Sabotage;
use sabotage::{which_dir, which_file};

/// Which calls a [`Fault`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultyCall {
    /// Writing to a file, or cutting it.
    Write,
    /// Syncing a file.
    Sync,
    /// Giving a file or directory its name: making or renaming it.
    Name,
    /// Syncing a directory.
    SyncDir,
    /// Any of these, or a removal.
    Change,
    /// Reading from a file.
    Read,
}

/// What happens at the Nth of some calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The calls that count.
    pub call: FaultyCall,
    /// Which of them fails, from 1.
    pub nth: u64,
    /// How it fails; `None` ends the process there: a write gets part of the way, and nothing
    /// happens from then on until [`PowerStorage::restart`].
    pub errno: Option<i32>,
}

/// Files in memory. Clones are the same files.
#[derive(Clone)]
pub struct PowerStorage {
    machine: Arc<Mutex<Machine>>,
}

impl PowerStorage {
    /// An empty storage whose losses follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let machine = Machine {
            nodes: vec![Node::Dir(Names::default())],
            chance: Chance::new(seed),
            life: 0,
            boot: 0,
            dead: false,
            full: false,
            fault: None,
            sabotage: None,
            handles: 0,
            syncs: 0,
            faults: 0,
        };
        Self {
            machine: Arc::new(Mutex::new(machine)),
        }
    }

    /// Turns one kind of sync into nothing from now on.
    pub fn sabotage(&self, sabotage: Sabotage) {
        self.machine().sabotage = Some(sabotage);
    }

    /// Has `fault` happen, in place of any other that was to come.
    pub fn arm(&self, fault: Option<Fault>) {
        self.machine().fault = fault;
    }

    /// Whether the process has ended by a fault.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.machine().dead
    }

    /// Ends the process here.
    pub fn kill(&self) {
        self.machine().dead = true;
    }

    /// Whether the disk is full: nothing can be written, not even in place of something else as on
    /// a disk that never overwrites, and nothing be made. Renaming, cutting and removing go on.
    pub fn set_full(&self, full: bool) {
        self.machine().full = full;
    }

    /// What a file holds, as everybody would see it; also while no process lives to read it.
    #[must_use]
    pub fn peek(&self, path: &str) -> Option<Vec<u8>> {
        let machine = self.machine();
        match &machine.nodes[machine.find(path).ok()?] {
            Node::File(file) => Some(file.content.seen.clone()),
            Node::Dir(_) => None,
        }
    }

    /// How often a file was synced.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.machine().syncs
    }

    /// How many faults have happened.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.machine().faults
    }

    /// The process ends and another begins: open files and locks are gone, all writes stay.
    pub fn restart(&self) {
        self.machine().restart();
    }

    /// The machine loses power and starts anew: what was not synced may be gone.
    pub fn power_loss(&self) {
        let mut machine = self.machine();
        machine.restart();
        machine.boot += 1;
        let machine = &mut *machine;
        for node in &mut machine.nodes {
            match node {
                Node::File(file) => file.content.lose_power(&mut machine.chance),
                Node::Dir(names) => names.lose_power(&mut machine.chance),
            }
        }
        machine.count_names();
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Machine {
    /// The first is the root. Nodes are never removed, only their names.
    nodes: Vec<Node>,
    chance: Chance,
    /// Counts processes: files opened in an earlier one are closed.
    life: u64,
    boot: u64,
    dead: bool,
    full: bool,
    fault: Option<Fault>,
    sabotage: Option<Sabotage>,
    handles: u64,
    syncs: u64,
    faults: u64,
}

enum Node {
    File(FileNode),
    Dir(Names),
}

struct FileNode {
    content: Content,
    names: usize,
    locked_by: Option<u64>,
}

/// What a call was told to do before it began.
enum Fate {
    Go,
    Die,
}

impl Machine {
    fn restart(&mut self) {
        self.life += 1;
        self.dead = false;
        self.fault = None;
        for node in &mut self.nodes {
            if let Node::File(file) = node {
                file.locked_by = None;
            }
        }
    }

    /// Counts names anew after some were lost.
    fn count_names(&mut self) {
        let mut counts = vec![0; self.nodes.len()];
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            if let Node::Dir(names) = &self.nodes[at] {
                for &node in names.seen.values() {
                    counts[node] += 1;
                    open.push(node);
                }
            }
        }
        for (node, count) in self.nodes.iter_mut().zip(counts) {
            if let Node::File(file) = node {
                file.names = count;
            }
        }
    }

    /// Whether this call fails or is the last of the process.
    fn begin(&mut self, call: FaultyCall) -> io::Result<Fate> {
        if self.dead {
            return Err(Errno::IO.into());
        }
        let Some(fault) = &mut self.fault else {
            return Ok(Fate::Go);
        };
        let counts = match fault.call {
            FaultyCall::Change => call != FaultyCall::Read,
            one @ (FaultyCall::Write
            | FaultyCall::Sync
            | FaultyCall::Name
            | FaultyCall::SyncDir
            | FaultyCall::Read) => one == call,
        };
        if !counts {
            return Ok(Fate::Go);
        }
        fault.nth = fault.nth.saturating_sub(1);
        if fault.nth > 0 {
            return Ok(Fate::Go);
        }
        let errno = fault.errno;
        self.faults += 1;
        self.fault = None;
        match errno {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => {
                self.dead = true;
                Ok(Fate::Die)
            }
        }
    }

    /// As [`Self::begin`] for a call that happens at once or not at all.
    fn begin_whole(&mut self, call: FaultyCall) -> io::Result<()> {
        match self.begin(call)? {
            Fate::Go => Ok(()),
            Fate::Die => Err(Errno::IO.into()),
        }
    }

    fn refuse_if_full(&self) -> io::Result<()> {
        match self.full {
            true => Err(Errno::NOSPC.into()),
            false => Ok(()),
        }
    }

    fn find(&self, path: &str) -> io::Result<usize> {
        let mut at = 0;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at = *self.dir(at)?.seen.get(part).ok_or(Errno::NOENT)?;
        }
        Ok(at)
    }

    fn parent<'a>(&self, path: &'a str) -> io::Result<(usize, &'a str)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let at = self.find(dir)?;
        self.dir(at)?;
        Ok((at, name))
    }

    fn dir(&self, at: usize) -> io::Result<&Names> {
        match &self.nodes[at] {
            Node::Dir(names) => Ok(names),
            Node::File(_) => Err(NotPlain.into()),
        }
    }

    fn change_names(&mut self, at: usize, op: NameOp) {
        if let Node::Dir(names) = &mut self.nodes[at] {
            names.change(op);
        }
        self.count_names();
    }

    fn file(&mut self, at: usize) -> io::Result<(&mut FileNode, &mut Chance)> {
        match &mut self.nodes[at] {
            Node::File(file) => Ok((file, &mut self.chance)),
            Node::Dir(_) => Err(NotPlain.into()),
        }
    }

    fn open(&mut self, path: &str, access: Access) -> io::Result<usize> {
        let (dir, name) = self.parent(path)?;
        if let Some(&node) = self.dir(dir)?.seen.get(name) {
            return match &self.nodes[node] {
                Node::File(file) if file.names == 1 => Ok(node),
                Node::File(_) | Node::Dir(_) => Err(NotPlain.into()),
            };
        }
        if access != Access::Create {
            return Err(Errno::NOENT.into());
        }
        self.refuse_if_full()?;
        self.begin_whole(FaultyCall::Name)?;
        self.nodes.push(Node::File(FileNode {
            content: Content::default(),
            names: 0,
            locked_by: None,
        }));
        let node = self.nodes.len() - 1;
        self.change_names(dir, NameOp::Add(name.to_owned(), node));
        Ok(node)
    }

    fn is_sabotaged(&self, sync: Sabotage) -> bool {
        self.sabotage == Some(sync)
    }
}

impl Storage for PowerStorage {
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StoredFile>> {
        let mut machine = self.machine();
        if machine.dead {
            return Err(Errno::IO.into());
        }
        let node = machine.open(path, access)?;
        machine.handles += 1;
        Ok(Arc::new(PowerFile {
            storage: self.clone(),
            node,
            life: machine.life,
            handle: machine.handles,
            sync: which_file(path),
        }))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        Ok(self.machine().find(path).is_ok())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let machine = self.machine();
        let at = machine.find(dir)?;
        Ok(machine.dir(at)?.seen.keys().cloned().collect())
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut machine = self.machine();
        let (dir, name) = machine.parent(path)?;
        if machine.dir(dir)?.seen.contains_key(name) {
            return Err(Errno::EXIST.into());
        }
        machine.refuse_if_full()?;
        machine.begin_whole(FaultyCall::Name)?;
        machine.nodes.push(Node::Dir(Names::default()));
        let node = machine.nodes.len() - 1;
        machine.change_names(dir, NameOp::Add(name.to_owned(), node));
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut machine = self.machine();
        let (dir, from) = machine.parent(from)?;
        let (to_dir, to) = machine.parent(to)?;
        if dir != to_dir {
            return Err(Errno::XDEV.into());
        }
        let names = &machine.dir(dir)?.seen;
        let node = *names.get(from).ok_or(Errno::NOENT)?;
        if let Some(&there) = names.get(to)
            && let Node::Dir(names) = &machine.nodes[there]
            && !names.seen.is_empty()
        {
            return Err(Errno::NOTEMPTY.into());
        }
        machine.begin_whole(FaultyCall::Name)?;
        let op = NameOp::Rename(from.to_owned(), to.to_owned(), node);
        machine.change_names(dir, op);
        Ok(())
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let mut machine = self.machine();
        let (dir, name) = machine.parent(path)?;
        let node = *machine.dir(dir)?.seen.get(name).ok_or(Errno::NOENT)?;
        if let Node::Dir(_) = &machine.nodes[node] {
            return Err(Errno::ISDIR.into());
        }
        machine.begin_whole(FaultyCall::Change)?;
        machine.change_names(dir, NameOp::Remove(name.to_owned()));
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut machine = self.machine();
        let (dir, name) = machine.parent(path)?;
        let node = *machine.dir(dir)?.seen.get(name).ok_or(Errno::NOENT)?;
        if !machine.dir(node)?.seen.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        machine.begin_whole(FaultyCall::Change)?;
        machine.change_names(dir, NameOp::Remove(name.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut machine = self.machine();
        let at = machine.find(path)?;
        let sync = which_dir(path, machine.dir(at)?);
        machine.begin_whole(FaultyCall::SyncDir)?;
        if machine.is_sabotaged(sync) {
            return Ok(());
        }
        if let Node::Dir(names) = &mut machine.nodes[at] {
            names.sync();
        }
        Ok(())
    }

    fn boot_id(&self) -> Option<String> {
        Some(format!("boot-{}", self.machine().boot))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }
}

struct PowerFile {
    storage: PowerStorage,
    node: usize,
    life: u64,
    handle: u64,
    sync: Option<Sabotage>,
}

impl PowerFile {
    fn machine(&self) -> io::Result<MutexGuard<'_, Machine>> {
        let machine = self.storage.machine();
        if machine.life != self.life || machine.dead {
            return Err(Errno::IO.into());
        }
        Ok(machine)
    }
}

impl StoredFile for PowerFile {
    fn len(&self) -> io::Result<u64> {
        let mut machine = self.machine()?;
        Ok(machine.file(self.node)?.0.content.seen.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.machine()?;
        machine.begin_whole(FaultyCall::Read)?;
        let (file, chance) = machine.file(self.node)?;
        if chance.one_in(200) {
            return Err(Errno::INTR.into());
        }
        Ok(file.content.read(buffer, offset, chance))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut machine = self.machine()?;
        machine.refuse_if_full()?;
        let fate = machine.begin(FaultyCall::Write);
        let (file, chance) = machine.file(self.node)?;
        let part = match &fate {
            Ok(Fate::Go) if chance.one_in(100) => return Err(Errno::INTR.into()),
            Ok(Fate::Go) if !chance.one_in(50) => bytes.len(),
            // Short, or failed after a part.
            Ok(_) | Err(_) => chance.index(bytes.len()),
        };
        let part = match &fate {
            Ok(Fate::Go) => part.max(1).min(bytes.len()),
            Ok(Fate::Die) | Err(_) => part,
        };
        file.content.write(offset, &bytes[..part]);
        match fate? {
            Fate::Go => Ok(part),
            Fate::Die => Err(Errno::IO.into()),
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut machine = self.machine()?;
        machine.begin_whole(FaultyCall::Write)?;
        machine.file(self.node)?.0.content.truncate(len);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut machine = self.machine()?;
        machine.syncs += 1;
        let begun = machine.begin_whole(FaultyCall::Sync);
        let early = machine.is_sabotaged(Sabotage::EarlyAck)
            && matches!(self.sync, Some(Sabotage::Events | Sabotage::NewEvents));
        let skipped = self.sync.is_some_and(|sync| machine.is_sabotaged(sync));
        let dead = machine.dead;
        let (file, chance) = machine.file(self.node)?;
        if let Err(error) = begun {
            if !dead {
                file.content.fail_sync(chance);
            }
            return Err(error);
        }
        if file.names == 0 {
            return Err(io::Error::other("the file was removed while it was open"));
        }
        match (skipped, early) {
            (true, _) => {}
            (false, true) => file.content.sync_late(),
            (false, false) => file.content.sync(),
        }
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut machine = self.machine()?;
        let (file, _) = machine.file(self.node)?;
        match file.locked_by {
            Some(holder) if holder != self.handle => Ok(false),
            _ => {
                file.locked_by = Some(self.handle);
                Ok(true)
            }
        }
    }
}

impl Drop for PowerFile {
    fn drop(&mut self) {
        let mut machine = self.storage.machine();
        if machine.life == self.life
            && let Ok((file, _)) = machine.file(self.node)
            && file.locked_by == Some(self.handle)
        {
            file.locked_by = None;
        }
    }
}
