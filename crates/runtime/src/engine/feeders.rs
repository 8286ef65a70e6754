//! The feeders of a run's maps: started, heard, ended, reaped. What they say is passed on word by word; what follows from an end is
//! judged here, because only here it is known how often that happened.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use gpulane_journal::RunDir;
use gpulane_model::{FEEDER, FeederWord, Millis, Plan, ProcessExit, RunState, StageId, env_vars};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};

use super::ending::reap;
use crate::feeder::orders::FeederOrders;
use crate::orders::Orders;
use crate::process::image::{CStrings, Image, PointerArray, c_path};
use crate::process::spawn::{Spawned, Spawner};
use crate::process::tree::{self, Table};

/// A feeder that crashes so often without a commit in between is not started again.
const MOST_CRASHES: u32 = 20;
/// The exit code by which a feeder asks to be started again.
const AGAIN: i32 = 75;
/// The exit code of one that a signal has ended in good order: what it had done is durable.
const INTERRUPTED: i32 = 143;
/// How long one may stay that has said its last word.
const LEAVE: Millis = Millis::seconds(30);
/// After this long under KILL a process is stuck in the kernel.
const STUCK: Millis = Millis::seconds(20);
/// A word is never longer; more without an end of line is garbage.
const LONGEST: usize = 16 << 20;
/// How often its pipe is read in a row.
const MOST_READS: u32 = 64;

/// Every map's feeder.
pub(super) struct Feeders {
    dir: RunDir,
    plan: Arc<Plan>,
    spawner: Spawner,
    maps: HashMap<StageId, Map>,
    /// `--accept-changes`.
    accept_changes: bool,
}

/// What is known of a map beside its feeder.
#[derive(Default)]
struct Map {
    live: Option<Live>,
    /// Commits the journal knows of.
    announced: u64,
    /// Failures the journal names.
    named: u64,
    /// Items that failed are to be tried again, and no feeder has begun with that.
    again: bool,
    /// A feeder of this engine has found the map to be what it was: the next one need not ask again.
    opened: bool,
    /// Crashes since the last commit.
    crashes: u32,
}

/// A feeder that has not been reaped.
struct Live {
    pid: Pid,
    pidfd: OwnedFd,
    /// What it says.
    words: OwnedFd,
    /// The beginning of a word.
    partial: Vec<u8>,
    /// It will say nothing more.
    silent: bool,
    /// It said that the map is over.
    over: bool,
    /// It was asked to end.
    ending: bool,
    /// When KILL was sent first.
    killed: Option<Millis>,
}

/// What the end of a feeder means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It has not ended.
    Not,
    /// It is to be started again; why, if nobody was told.
    Again(Option<String>),
    /// It is gone; why the map does not go on, if that was not said.
    Gone(Option<String>),
}

impl Feeders {
    pub(super) fn new(dir: RunDir, plan: Arc<Plan>, past: &RunState, accept_changes: bool) -> Self {
        let maps = past.maps.iter().enumerate().filter_map(|(at, map)| {
            let map = map.as_ref()?;
            let known = Map { announced: map.commits, named: map.named, again: map.again, ..Map::default() };
            Some((StageId::at(at), known))
        });
        Self { maps: maps.collect(), dir, plan, spawner: Spawner::new(), accept_changes }
    }

    /// Starts the feeder of a stage; its process.
    pub(super) fn start(&mut self, stage: StageId) -> io::Result<Pid> {
        let Some(map) = self.maps.get_mut(&stage) else { return Err(io::ErrorKind::NotFound.into()) };
        let orders = FeederOrders {
            dir: self.dir.root().to_owned(),
            python: self.dir.python_dir(),
            stage,
            announced: map.announced,
            failed_again: map.again,
            accept_changes: self.accept_changes,
            opened: map.opened,
        };
        let (words, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&words, true)?;
        let log = match open_log(&self.dir, &self.dir.map_dir(self.plan.stage(stage))) {
            // The feeder waits for space; its log is not worth more than the map.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) =>
            {
                rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?
            }
            log => log?,
        };
        let name = &self.plan.stage(stage).name;
        let spawned = spawn(&mut self.spawner, &orders, name, theirs.as_fd(), log.as_fd())?;
        let Spawned { pid, pidfd } = spawned;
        let partial = Vec::new();
        map.live = Some(Live {
            pid,
            pidfd,
            words,
            partial,
            silent: false,
            over: false,
            ending: false,
            killed: None,
        });
        Ok(pid)
    }

    /// Readable when the feeder has ended, and when it has said something.
    pub(super) fn ears(&self, stage: StageId) -> Option<(BorrowedFd<'_>, BorrowedFd<'_>)> {
        let live = self.maps.get(&stage)?.live.as_ref()?;
        Some((live.pidfd.as_fd(), live.words.as_fd()))
    }

    /// What it has said since the last call.
    pub(super) fn hear(&mut self, stage: StageId) -> Vec<FeederWord> {
        let Some(map) = self.maps.get_mut(&stage) else { return Vec::new() };
        let Some(live) = &mut map.live else { return Vec::new() };
        let words = live.read();
        for word in &words {
            match word {
                FeederWord::Opened { .. } => (map.again, map.opened) = (false, true),
                FeederWord::Committed { .. } => (map.announced, map.crashes) = (map.announced + 1, 0),
                FeederWord::ItemFailed { .. } => map.named += 1,
                FeederWord::Finished { .. } | FeederWord::Stopped { .. } => live.over = true,
                FeederWord::Unfit { .. } | FeederWord::Trouble { .. } | FeederWord::Note { .. } => {}
            }
        }
        words
    }

    /// What it speaks through, if it will say nothing more: there is nothing to listen for.
    pub(super) fn silenced(&self, stage: StageId) -> Option<BorrowedFd<'_>> {
        let live = self.maps.get(&stage)?.live.as_ref()?;
        live.silent.then(|| live.words.as_fd())
    }

    /// How many failures of this map were told so far.
    pub(super) fn named(&self, stage: StageId) -> u64 {
        self.maps.get(&stage).map_or(0, |map| map.named)
    }

    /// Asks it to end, or ends it. Returns when to look after it again.
    pub(super) fn end(&mut self, stage: StageId, at_once: bool, now: Millis) -> Option<Millis> {
        let grace = self.plan.stage(stage).grace;
        let live = self.maps.get_mut(&stage)?.live.as_mut()?;
        live.ending = true;
        if at_once {
            live.kill(now);
            return Some(now.after(STUCK));
        }
        if let Some(process) = tree::look(live.pid) {
            tree::signal(&process, Signal::TERM);
        }
        Some(now.after(grace))
    }

    /// Lets feeders go on, and the loaders they have started, that somebody has stopped: a map waits for each of them. Which.
    pub(super) fn let_go_on(&self) -> Vec<Pid> {
        let lives = self.maps.values().filter_map(|map| map.live.as_ref());
        let all = lives.flat_map(|live| std::iter::once(live.pid).chain(tree::children_of(live.pid)));
        let stopped = all.filter_map(tree::look).filter(|process| process.state == b'T');
        stopped.inspect(|process| tree::signal(process, Signal::CONT)).map(|process| process.pid).collect()
    }

    /// When to look after one that has said its last word. Its loaders have the stage's grace.
    pub(super) fn leave_by(&self, stage: StageId, now: Millis) -> Millis {
        now.after(self.plan.stage(stage).grace).after(LEAVE)
    }

    /// Its time is up: KILL. `Err`: it outlives that, and is not waited for any more.
    pub(super) fn press(&mut self, stage: StageId, now: Millis) -> Result<Option<Millis>, Pid> {
        let Some(map) = self.maps.get_mut(&stage) else { return Ok(None) };
        let Some(live) = map.live.as_mut().filter(|live| live.ending || live.over) else { return Ok(None) };
        match live.killed {
            Some(at) if now.since(at) >= STUCK => {
                let pid = live.pid;
                map.live = None;
                Err(pid)
            }
            Some(at) => Ok(Some(at.after(STUCK))),
            None => {
                live.kill(now);
                Ok(Some(now.after(STUCK)))
            }
        }
    }

    /// Reaps it if it has ended, and judges that. Everything it said must have been heard.
    pub(super) fn on_ended(&mut self, stage: StageId) -> (Option<Pid>, Ended) {
        let Some(map) = self.maps.get_mut(&stage) else { return (None, Ended::Not) };
        let Some(live) = &map.live else { return (None, Ended::Not) };
        let exit = match reap(&live.pidfd) {
            Ok(None) => return (None, Ended::Not),
            Ok(Some(exit)) => exit,
            // Somebody else took its status; that it ended is all we know.
            Err(_) => ProcessExit::Signal(libc::SIGKILL),
        };
        let (pid, over, ending) = (live.pid, live.over, live.ending);
        map.live = None;
        if over || ending {
            return (Some(pid), Ended::Gone(None));
        }
        let log = self.dir.map_dir(self.plan.stage(stage)).join("feeder.log");
        let resume = format!("`gpulane resume {} --failed` goes on", self.dir.root().display());
        let ended = match exit {
            ProcessExit::Signal(_) | ProcessExit::Code(AGAIN | INTERRUPTED) if map.crashes < MOST_CRASHES => {
                map.crashes += 1;
                Ended::Again(by_whom(exit, pid))
            }
            ProcessExit::Signal(_) | ProcessExit::Code(AGAIN | INTERRUPTED) => Ended::Gone(Some(format!(
                "the feeder ended {MOST_CRASHES} times without getting anywhere, the last time by {exit}; see {}; {resume}",
                log.display()
            ))),
            ProcessExit::Code(_) => {
                Ended::Gone(Some(format!("the feeder ended with {exit}; see {}; {resume}", log.display())))
            }
        };
        (Some(pid), ended)
    }
}

impl Live {
    fn read(&mut self) -> Vec<FeederWord> {
        let mut buffer = [0; 1 << 14];
        // More than a pipe holds. Where it is filled again meanwhile, the rest is heard in the next round.
        for _ in 0..MOST_READS {
            match rustix::io::read(&self.words, &mut buffer) {
                Ok(0) => {
                    self.silent = true;
                    break;
                }
                Err(_) => break,
                Ok(read) => self.partial.extend_from_slice(&buffer[..read]),
            }
        }
        let complete = self.partial.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.partial.drain(..complete).collect();
        if self.partial.len() > LONGEST {
            self.partial.clear();
        }
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// It and all it has started.
    fn kill(&mut self, now: Millis) {
        self.killed.get_or_insert(now);
        for process in Table::read().closure(&[self.pid]) {
            tree::signal(&process, Signal::KILL);
        }
    }
}

/// What to tell of a feeder that somebody else has ended. One that crashed by itself did so over an item, which is told with that.
fn by_whom(exit: ProcessExit, pid: Pid) -> Option<String> {
    let how = match exit {
        ProcessExit::Code(INTERRUPTED) => "a signal that gpulane did not send".to_owned(),
        ProcessExit::Signal(libc::SIGKILL | libc::SIGTERM | libc::SIGINT | libc::SIGHUP | libc::SIGQUIT) => {
            format!("{exit}, which gpulane did not send")
        }
        _ => return None,
    };
    let pid = pid.as_raw_nonzero();
    Some(format!(
        "the feeder (pid {pid}) was ended by {how}; it is started again, and nothing that was done is lost"
    ))
}

fn open_log(run: &RunDir, map: &std::path::Path) -> io::Result<OwnedFd> {
    run.make_dir(map)?;
    let path: PathBuf = map.join("feeder.log");
    Ok(gpulane_files::append(&path)?.into())
}

/// Starts this program as a feeder. It bears the run's mark as jobs do, so that whoever cleans up after us finds it.
fn spawn(
    spawner: &mut Spawner,
    orders: &FeederOrders,
    stage: &str,
    words: BorrowedFd<'_>,
    log: BorrowedFd<'_>,
) -> io::Result<Spawned> {
    let command = orders.command()?;
    let given: Vec<_> = command.get_envs().filter_map(|(name, value)| Some((name, value?))).collect();
    let marks = [
        (env_vars::RUN, orders.dir.as_os_str().as_bytes().to_vec()),
        (env_vars::STAGE, stage.as_bytes().to_vec()),
        (env_vars::JOB, format!("{stage}/(feeder)").into_bytes()),
        (env_vars::ATTEMPT, b"0".to_vec()),
    ];
    let mut envp = CStrings::default();
    for (name, value) in std::env::vars_os() {
        let ours =
            given.iter().any(|(known, _)| *known == name) || marks.iter().any(|(known, _)| *known == name);
        if !ours && !name.to_str().is_some_and(Orders::is_private) {
            envp.push([name.as_bytes(), b"=", value.as_bytes()].concat());
        }
    }
    for (name, value) in &given {
        envp.push([name.as_bytes(), b"=", value.as_bytes()].concat());
    }
    for (name, value) in &marks {
        envp.push([name.as_bytes(), b"=", value.as_slice()].concat());
    }
    let mut argv = CStrings::default();
    argv.push(FEEDER);
    let program = c_path(command.get_program().as_ref());
    let image =
        Image { program: &program, argv: PointerArray::of(&[&argv]), envp: PointerArray::of(&[&envp]) };
    spawner.spawn(&image, words, log, &[])
}
