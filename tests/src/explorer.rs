//! Explores every interleaving of some actors' steps, depth first, on one thread.
//!
//! Futures cannot be copied, so every schedule starts from a fresh world and repeats its prefix. Two
//! reductions keep the count small without losing an outcome: sleep sets (of two steps that commute, one
//! order is enough) and visited states (two prefixes with the same rows, where every actor has seen the same
//! answers, go on alike).

use futures::future::BoxFuture;
use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use crate::clock::TestClock;
use crate::engines::stepped::{Stage, Step};

/// Actors at the start of a run.
pub struct World<T> {
    /// Grants their steps.
    pub stage: Stage,
    /// Advanced when all of them sleep.
    pub clock: TestClock,
    /// The actors; each says how it ended.
    pub actors: Vec<BoxFuture<'static, String>>,
    /// What they work on.
    pub tables: T,
}

/// The end of a run.
pub struct Ended<T> {
    /// The actor of every step.
    pub schedule: Vec<usize>,
    /// How each actor ended.
    pub results: Vec<String>,
    /// Debits and trace.
    pub stage: Stage,
    /// What they worked on.
    pub tables: T,
}

/// The extent of an exploration.
#[derive(Debug, Clone, Copy, Default)]
pub struct Explored {
    /// Runs, including those that a reduction stopped.
    pub runs: usize,
    /// Runs to the end.
    pub ends: usize,
    /// Whether the bound on runs cut the exploration.
    pub cut: bool,
}

/// A choice between actors that the search has to exhaust.
struct Node {
    steps: Vec<Option<Step>>,
    /// Actors with a step that leads nowhere new from here.
    asleep: BTreeSet<usize>,
    chosen: usize,
}

/// Which schedules are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Those that end as another one does.
    Equivalent,
    /// None: to test the reduction itself.
    None,
}

/// Runs every interleaving, at most `bound` runs, and hands each end to `end`.
pub async fn explore<T>(
    bound: usize,
    reduction: Reduction,
    mut start: impl AsyncFnMut() -> World<T>,
    mut end: impl AsyncFnMut(Ended<T>),
) -> Explored {
    let mut explored = Explored::default();
    let mut visited: HashMap<u64, Vec<BTreeSet<usize>>> = HashMap::new();
    let mut path: Vec<Node> = Vec::new();
    loop {
        if explored.runs == bound {
            return Explored { cut: true, ..explored };
        }
        explored.runs += 1;
        let mut run = Running::new(start().await).await;
        for node in &path {
            assert_eq!(run.steps(), node.steps, "a repeated prefix went another way");
            run.step(node.chosen).await;
        }
        loop {
            let asleep = match reduction {
                Reduction::Equivalent => path.last().map(Node::asleep_below).unwrap_or_default(),
                Reduction::None => BTreeSet::new(),
            };
            let steps = run.steps();
            if steps.iter().all(Option::is_none) {
                explored.ends += 1;
                end(run.ended()).await;
                break;
            }
            let known = visited.entry(run.world.stage.fingerprint()).or_default();
            if reduction == Reduction::Equivalent {
                if known.iter().any(|before| before.is_subset(&asleep)) {
                    break;
                }
                known.push(asleep.clone());
            }
            let Some(chosen) = first_awake(&steps, &asleep) else { break };
            run.step(chosen).await;
            path.push(Node { steps, asleep, chosen });
        }
        if !next_path(&mut path) {
            return explored;
        }
    }
}

/// Runs that many schedules, drawn by seed, for actors with too many interleavings.
pub async fn sample<T>(
    runs: usize,
    seed: u64,
    mut start: impl AsyncFnMut() -> World<T>,
    mut end: impl AsyncFnMut(Ended<T>),
) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..runs {
        let mut run = Running::new(start().await).await;
        // Few switches find more: an actor goes on for some steps.
        let stay = random.u32(30..90);
        let mut last = None;
        loop {
            let steps = run.steps();
            let enabled: Vec<usize> = (0..steps.len()).filter(|actor| steps[*actor].is_some()).collect();
            if enabled.is_empty() {
                break;
            }
            let next = match last {
                Some(last) if enabled.contains(&last) && random.u32(0..100) < stay => last,
                _ => enabled[random.usize(0..enabled.len())],
            };
            run.step(next).await;
            last = Some(next);
        }
        end(run.ended()).await;
    }
}

/// Runs one schedule. Where it ends early, or names an actor that has ended, the first actor goes on.
pub async fn follow<T>(world: World<T>, schedule: &[usize]) -> Ended<T> {
    let mut run = Running::new(world).await;
    let mut wanted = schedule.iter().copied();
    loop {
        let steps = run.steps();
        let Some(first) = first_awake(&steps, &BTreeSet::new()) else { return run.ended() };
        let wanted = wanted.next().filter(|actor| steps.get(*actor).is_some_and(Option::is_some));
        run.step(wanted.unwrap_or(first)).await;
    }
}

/// Runs the actors one after the other.
pub async fn in_order<T>(world: World<T>, order: &[usize]) -> Ended<T> {
    let mut run = Running::new(world).await;
    loop {
        let steps = run.steps();
        let Some(next) = order.iter().find(|actor| steps[**actor].is_some()) else { return run.ended() };
        run.step(*next).await;
    }
}

impl Node {
    /// The actors that stay asleep after the chosen step: those with a step that commutes with it.
    fn asleep_below(&self) -> BTreeSet<usize> {
        let commutes = |actor: &usize| match (&self.steps[*actor], &self.steps[self.chosen]) {
            (Some(a), Some(b)) => a.commutes_with(b),
            (Some(_) | None, _) => false,
        };
        self.asleep.iter().copied().filter(commutes).collect()
    }
}

fn first_awake(steps: &[Option<Step>], asleep: &BTreeSet<usize>) -> Option<usize> {
    (0..steps.len()).find(|actor| steps[*actor].is_some() && !asleep.contains(actor))
}

/// Moves to the next untried choice; `false` when there is none.
fn next_path(path: &mut Vec<Node>) -> bool {
    while let Some(node) = path.last_mut() {
        node.asleep.insert(node.chosen);
        if let Some(next) = first_awake(&node.steps, &node.asleep) {
            node.chosen = next;
            return true;
        }
        path.pop();
    }
    false
}

/// A run in progress. After every step each actor waits for its next one, or has ended.
struct Running<T> {
    world: World<T>,
    results: Vec<Option<String>>,
    schedule: Vec<usize>,
}

/// How often the clock is advanced before an actor counts as stuck.
const MOST_SLEEPS: u32 = 1000;

impl<T> Running<T> {
    async fn new(world: World<T>) -> Self {
        let actors = world.actors.len();
        let mut run = Self { world, results: vec![None; actors], schedule: Vec::new() };
        for actor in 0..actors {
            run.go_on(actor).await;
        }
        run.wake_sleepers().await;
        run
    }

    fn steps(&self) -> Vec<Option<Step>> {
        (0..self.results.len()).map(|actor| self.world.stage.next_step(actor)).collect()
    }

    async fn step(&mut self, actor: usize) {
        self.schedule.push(actor);
        self.world.stage.grant(actor);
        self.go_on(actor).await;
        self.wake_sleepers().await;
    }

    /// Polls an actor until it waits for a step, sleeps, or has ended.
    async fn go_on(&mut self, actor: usize) {
        if self.results[actor].is_some() {
            return;
        }
        let (future, stage) = (&mut self.world.actors[actor], &self.world.stage);
        self.results[actor] = poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending if stage.is_running(actor) => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await;
    }

    /// When no actor has a step, those that have not ended are asleep: advances the clock.
    async fn wake_sleepers(&mut self) {
        for _ in 0..MOST_SLEEPS {
            let is_over = self.results.iter().all(Option::is_some);
            if is_over || self.steps().iter().any(Option::is_some) {
                return;
            }
            self.world.clock.advance(Duration::from_secs(1));
            for actor in 0..self.results.len() {
                self.go_on(actor).await;
            }
        }
        panic!("an actor neither ends nor calls: {:?}", self.schedule);
    }

    fn ended(self) -> Ended<T> {
        let results = self.results.into_iter().map(Option::unwrap_or_default).collect();
        let World { stage, tables, .. } = self.world;
        Ended { schedule: self.schedule, results, stage, tables }
    }
}
