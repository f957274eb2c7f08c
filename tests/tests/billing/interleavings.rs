//! Two or three actors at once on one member: every interleaving of their reads, writes and calls to the
//! gateway ends as one of their sequential orders does, and keeps the rules of an independent judge.
//!
//! Bounded and exhaustive: each engine call is a step, and every schedule is run, up to a bound on the
//! number of runs of a pair that the output names when it cuts.
//!
//! | variable | meaning |
//! |---|---|
//! | `INTERLEAVINGS=all` | all pairs, both ways and at the same instant; more triples; six minutes |
//! | `INTERLEAVINGS_SEED=n` | which cases the default run draws |
//! | `INTERLEAVINGS_ONLY=sent/CANCEL+SUBMITTED` | one member and its actors |
//! | `INTERLEAVING=sent/CANCEL+SUBMITTED/0100111` | one schedule, with its trace: the actor of each step |
//!
//! In the name of a case, `=` instead of `+` stands for events of the same instant, and `sent!` for a member
//! with a lock that excludes no actor.

mod member;
pub(crate) mod system;

use dues_store::Engine;
use dues_tests::engines;
use dues_tests::engines::memory::Memory;
use dues_tests::engines::stepped::Stage;
use dues_tests::explorer::{Ended, Explored, Reduction, explore, follow, in_order, sample};
use dues_tests::judge::{Books, judge};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use member::{Act, MEMBERS, Member};
use system::{FAILED, LOCKED};

/// Everything that can happen to a member: the bank's reports, membership changes, a collection, and
/// operators' commands. The last three are part of a run of all.
const ACTS: [&str; 22] = [
    "SUBMITTED",
    "COMPLETED",
    "RETURNED",
    "REFUNDED",
    "CHARGED_BACK",
    "ACTIVATE",
    "REACTIVATE",
    "CANCEL",
    "RETRACT",
    "CLOSEACCOUNT",
    "PAUSE",
    "UNPAUSE",
    "UPGRADE",
    "DOWNGRADE",
    "REACTIVATE on its date",
    "debit",
    "pay",
    "waive",
    "move",
    "cancel",
    "pause",
    "resume",
];

/// How many of the acts are the bank's reports: these come first.
const REPORTS: usize = 5;
/// How many of the acts are events.
const EVENTS: usize = 15;
/// How many of the acts an ordinary run takes.
const ORDINARY: usize = 19;

/// A kind of problem of some actors, with the schedule that shows it with the fewest switches.
struct Finding {
    ends: usize,
    schedule: Vec<usize>,
    problem: String,
    /// The sequential order that ends so too.
    as_order: Option<String>,
}

/// What is wrong with an end.
struct Verdict {
    problems: Vec<String>,
    /// The sequential order that ends so too.
    as_order: Option<String>,
}

/// What became of some actors on a member.
struct Examined {
    explored: Explored,
    outcomes: usize,
    findings: BTreeMap<String, Finding>,
}

/// How many schedules of some actors are run.
#[derive(Debug, Clone, Copy)]
enum Extent {
    /// All that differ, up to a bound on runs.
    Every { bound: usize },
    /// That many, drawn by seed.
    Drawn { runs: usize },
}

/// A member and the actors on it, by name: `sent/CANCEL+SUBMITTED`.
struct Case {
    member: Member,
    acts: Vec<Act>,
}

impl Case {
    fn new(member: &Member, kinds: &[&'static str]) -> Self {
        let acts = kinds.iter().enumerate().map(|(n, kind)| Act { kind, n, minute: n + 1 }).collect();
        Self { member: member.clone(), acts }
    }

    /// With all events at the same instant.
    fn at_once(mut self) -> Self {
        self.acts.iter_mut().for_each(|act| act.minute = 1);
        self
    }

    fn kinds(&self) -> Vec<&'static str> {
        self.acts.iter().map(|act| act.kind).collect()
    }

    fn name(&self) -> String {
        let is_at_once = self.acts.iter().all(|act| act.minute == 1);
        let sign = if is_at_once { "=" } else { "+" };
        let locks = if self.member.has_locks { "" } else { "!" };
        format!("{}{locks}/{}", self.member.name, self.kinds().join(sign))
    }

    /// The view after each sequential order. A debit of two records may be parted by what others do: each
    /// record's debit is judged by itself.
    async fn sequential(&self) -> Vec<(String, String)> {
        self.orders_of(&self.acts).await
    }

    async fn orders_of(&self, acts: &[Act]) -> Vec<(String, String)> {
        let mut cases = vec![acts.to_vec()];
        let parted = |act: &Act| match act.kind {
            "debit" => {
                vec![Act { kind: "debit of one", ..*act }, Act { kind: "debit of the other", ..*act }]
            }
            _ => vec![*act],
        };
        if self.member.name == "two_due" && self.kinds().contains(&"debit") {
            cases.push(acts.iter().flat_map(parted).collect());
        }
        let mut views = Vec::new();
        for acts in cases {
            for order in permutations(acts.len()) {
                let ended = in_order(self.member.world(&acts, false).await, &order).await;
                let names: Vec<&str> = order.iter().map(|actor| acts[*actor].kind).collect();
                views.push((names.join(", then "), self.member.books(&ended).await.view()));
            }
        }
        views
    }

    /// Whether all acts are reports of the bank: their order of arrival must not matter.
    fn is_reports(&self) -> bool {
        self.acts.iter().all(|act| ACTS[..REPORTS].contains(&act.kind))
    }

    /// Judges an end.
    async fn judge(&self, ended: &Ended<Memory>, allowed: &[(String, String)]) -> Verdict {
        let books = self.member.books(ended).await;
        let now = self.member.now.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mut problems = judge(&self.kinds(), &books, &now);
        let view = books.view();
        let find = |allowed: &[(String, String)], view: &str| {
            allowed.iter().find(|(_, allowed)| allowed == view).map(|(order, _)| order.clone())
        };
        // A debit that was withdrawn leaves the next record that it had promised, cancelled.
        let mut as_order =
            find(allowed, &view).or_else(|| find(allowed, &books.without_abandoned_records().view()));
        // A collector that found the lock held has done nothing; its task comes again. So has one that made
        // no debit, where the reactivation is due at once: the next run collects the new record.
        let is_due_at_once = self.kinds().contains(&"REACTIVATE on its date") && books.debits.is_empty();
        let did_nothing = |act: &Act, result: &str| {
            result.ends_with(LOCKED) || (is_due_at_once && matches!(act.kind, "debit" | "pay"))
        };
        let did = |(act, result): (&Act, &String)| (!did_nothing(act, result)).then_some(*act);
        let others: Vec<Act> = self.acts.iter().zip(&ended.results).filter_map(did).collect();
        if as_order.is_none() && others.len() < self.acts.len() {
            let orders = self.orders_of(&others).await;
            as_order = find(&orders, &view);
            if as_order.is_none() {
                as_order = self.find_by_day(&others, &books).await;
            }
        }
        if as_order.is_none() {
            problems.push("order: the result is that of no sequential order".to_owned());
        }
        if self.is_reports() && allowed.iter().any(|(_, allowed)| *allowed != view) {
            problems.push("arrival: the result depends on the order of the bank's reports".to_owned());
        }
        for (act, result) in self.acts.iter().zip(&ended.results) {
            if result.starts_with(FAILED) {
                problems.push(format!("failed: {} {result}", act.kind));
            }
        }
        Verdict { problems, as_order }
    }

    /// The sequential order that ends so too, but for the record that made room: with a debit in flight it is
    /// the new one, otherwise the old one.
    async fn find_by_day(&self, acts: &[Act], books: &Books) -> Option<String> {
        let wanted = books.without_abandoned_records().view_by_day();
        for order in permutations(acts.len()) {
            let ended = in_order(self.member.world(acts, false).await, &order).await;
            let view = self.member.books(&ended).await.without_abandoned_records().view_by_day();
            if view == wanted {
                let names: Vec<&str> = order.iter().map(|actor| acts[*actor].kind).collect();
                return Some(names.join(", then "));
            }
        }
        None
    }

    /// Runs every interleaving; where the bound cuts, as many again that are drawn.
    async fn examine(&self, extent: Extent) -> Examined {
        let allowed = self.sequential().await;
        let (mut judged, mut findings) = (BTreeSet::new(), BTreeMap::<String, Finding>::new());
        let mut end = async |ended: Ended<Memory>| {
            if !judged.insert((ended.stage.outcome(), ended.results.clone())) {
                return;
            }
            let mut kinds = BTreeSet::new();
            let Verdict { problems, as_order } = self.judge(&ended, &allowed).await;
            for problem in problems {
                let kind = problem.split(':').next().unwrap_or_default().to_owned();
                let schedule = ended.schedule.clone();
                let known = findings.entry(kind.clone()).or_insert_with(|| Finding {
                    ends: 0,
                    schedule: schedule.clone(),
                    problem: problem.clone(),
                    as_order: as_order.clone(),
                });
                known.ends += usize::from(kinds.insert(kind));
                if switches(&schedule) < switches(&known.schedule) {
                    (known.schedule, known.problem, known.as_order) = (schedule, problem, as_order.clone());
                }
            }
        };
        let start = async || self.member.world(&self.acts, false).await;
        let mut explored = Explored::default();
        if let Extent::Every { bound } = extent {
            explored = explore(bound, Reduction::Equivalent, start, &mut end).await;
        }
        let drawn = match extent {
            Extent::Every { bound } if explored.cut => bound,
            Extent::Every { .. } => 0,
            Extent::Drawn { runs } => runs,
        };
        sample(drawn, seed(), start, &mut end).await;
        explored.runs += drawn;
        Examined { explored, outcomes: judged.len(), findings }
    }

    /// One schedule as a readable trace, with its result and the sequential ones.
    async fn trace(&self, schedule: &[usize]) -> String {
        let ended = follow(self.member.world(&self.acts, true).await, schedule).await;
        let allowed = self.sequential().await;
        let mut out = format!("{} {}\n", self.name(), digits(schedule));
        for line in ended.stage.trace() {
            let act = self.acts[line.actor].kind;
            writeln!(out, "  {} {act:<12} {} {}", line.actor, line.step, line.result).unwrap();
        }
        for (act, result) in self.acts.iter().zip(&ended.results) {
            writeln!(out, "  {} ended: {result}", act.kind).unwrap();
        }
        let problems = self.judge(&ended, &allowed).await.problems;
        let mut show = |title: &str, view: &str| {
            writeln!(out, "  {title}:\n    {}", view.replace('\n', "\n    ")).unwrap();
        };
        show("result", &self.member.books(&ended).await.view());
        for (order, view) in &allowed {
            show(order, view);
        }
        show("problems", &problems.join("\n"));
        write!(out, "  again: INTERLEAVING={}/{}", self.name(), digits(schedule)).unwrap();
        out
    }
}

fn switches(schedule: &[usize]) -> usize {
    schedule.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

fn digits(schedule: &[usize]) -> String {
    schedule.iter().map(ToString::to_string).collect()
}

/// All orders of the first `n` numbers.
pub(super) fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(n - 1) {
        for place in 0..n {
            let mut order = shorter.clone();
            order.insert(place, n - 1);
            all.push(order);
        }
    }
    all.sort();
    all
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The act of that name.
fn act_named(name: &str) -> &'static str {
    ACTS.into_iter().find(|act| *act == name).unwrap_or_else(|| panic!("no act {name}"))
}

fn seed() -> u64 {
    variable("INTERLEAVINGS_SEED").map_or(1, |seed| seed.parse().expect("INTERLEAVINGS_SEED is a number"))
}

fn is_all() -> bool {
    variable("INTERLEAVINGS").as_deref() == Some("all")
}

/// Pairs that every run examines: they broke in the field.
const ALWAYS: [&[&str]; 8] = [
    &["SUBMITTED", "REACTIVATE"],
    &["SUBMITTED", "CANCEL"],
    &["SUBMITTED", "CLOSEACCOUNT"],
    &["COMPLETED", "debit"],
    &["REACTIVATE", "debit"],
    &["REACTIVATE on its date", "debit"],
    &["CANCEL", "debit"],
    &["UPGRADE", "debit"],
];

/// Most runs of one pair.
fn bound() -> usize {
    if is_all() { 5000 } else { 500 }
}

/// The case that a variable names, if it names one of that member, and the schedule.
fn wanted(member: &Member) -> Option<Option<(Case, Option<Vec<usize>>)>> {
    let wanted = variable("INTERLEAVING").or_else(|| variable("INTERLEAVINGS_ONLY"))?;
    let mut parts = wanted.split('/');
    let name = parts.next().unwrap_or_default();
    if name.trim_end_matches('!') != member.name {
        return Some(None);
    }
    let mut member = member.clone();
    member.has_locks = !name.ends_with('!');
    let acts = parts.next().unwrap_or_default();
    let kinds: Vec<&str> = acts.split(['+', '=']).map(act_named).collect();
    let case = Case::new(&member, &kinds);
    let case = if acts.contains('=') { case.at_once() } else { case };
    let digit = |digit: char| digit.to_digit(10).expect("a schedule is digits") as usize;
    let schedule = parts.next().map(|schedule| schedule.chars().map(digit).collect());
    Some(Some((case, schedule)))
}

/// Examines every pair on a member.
async fn check_pairs(name: &'static str) {
    let member = Member::new(name).await;
    match wanted(&member) {
        None => {
            let mut random = fastrand::Rng::with_seed(seed());
            // A third of them, drawn: the core's calls are its to choose, and the run stays under a minute.
            let mut takes = |kinds: &[&str]| is_all() || random.u32(0..3) == 0 || ALWAYS.contains(&kinds);
            let cases = pairs().into_iter().filter(|kinds| takes(kinds));
            let cases = cases.map(|kinds| Case::new(&member, &kinds)).collect();
            report(cases, Extent::Every { bound: bound() }).await;
        }
        Some(None) => {}
        Some(Some((case, None))) => report(vec![case], Extent::Every { bound: bound() }).await,
        Some(Some((case, Some(schedule)))) => {
            println!("{}", case.trace(&schedule).await);
            let ended = follow(case.member.world(&case.acts, false).await, &schedule).await;
            let problems = case.judge(&ended, &case.sequential().await).await.problems;
            assert!(problems.is_empty(), "{}", problems.join("\n"));
        }
    }
}

/// How many traces a report shows, those with the fewest switches.
const TRACES: usize = 3;

/// Examines cases; fails with the problems of all and the traces of some.
async fn report(cases: Vec<Case>, extent: Extent) {
    let (mut runs, mut outcomes, mut cut) = (0, 0, Vec::new());
    let (mut lines, mut raced) = (Vec::new(), Vec::new());
    let begun = std::time::Instant::now();
    for case in &cases {
        let examined = case.examine(extent).await;
        runs += examined.explored.runs;
        outcomes += examined.outcomes;
        cut.extend(examined.explored.cut.then(|| case.name()));
        for Finding { ends, schedule, problem, as_order } in examined.findings.into_values() {
            lines.push(format!(
                "{}: {ends} of {} ends: {problem}{} [{}]",
                case.name(),
                examined.outcomes,
                as_order.as_ref().map_or_else(String::new, |order| format!(" (as {order})")),
                digits(&schedule)
            ));
            if as_order.is_none() {
                raced.push((switches(&schedule), case, schedule));
            }
        }
    }
    println!(
        "{} cases, {runs} runs, {outcomes} different ends, {:?}; cut at the bound: {}",
        cases.len(),
        begun.elapsed(),
        if cut.is_empty() { "none".to_owned() } else { cut.join(", ") }
    );
    raced.sort_by_key(|(switches, case, schedule)| (*switches, schedule.len(), case.name()));
    raced.dedup_by_key(|(_, case, schedule)| (case.name(), schedule.clone()));
    let mut traces = String::new();
    for (_, case, schedule) in raced.iter().take(TRACES) {
        traces += &format!("\n{}\n", case.trace(schedule).await);
    }
    assert!(lines.is_empty(), "{} problems:\n{}\n{traces}", lines.len(), lines.join("\n"));
}

/// Every pair; in a run of all also with the events' times the other way round.
fn pairs() -> Vec<Vec<&'static str>> {
    let is_all = is_all();
    let acts = &ACTS[..if is_all { ACTS.len() } else { ORDINARY }];
    let with = |n: usize| acts[if is_all { 0 } else { n }..].iter();
    acts.iter().enumerate().flat_map(|(n, a)| with(n).map(move |b| vec![*a, *b])).collect()
}

macro_rules! members {
    ($($member:ident)*) => {
        $(#[tokio::test]
        async fn $member() {
            check_pairs(stringify!($member)).await;
        })*
    };
}

members! { scheduled sent failed paused completed cancelling two_due }

/// Pairs of events that occurred at the same instant: their history rows want the same key.
#[tokio::test]
async fn same_instant() {
    if variable("INTERLEAVING").is_some() || variable("INTERLEAVINGS_ONLY").is_some() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let mut cases = Vec::new();
    for name in MEMBERS {
        let member = Member::new(name).await;
        let events = |kinds: &&Vec<&'static str>| kinds.iter().all(|kind| ACTS[..EVENTS].contains(kind));
        for kinds in pairs().iter().filter(events) {
            if is_all() || random.u32(0..12) == 0 {
                cases.push(Case::new(&member, kinds).at_once());
            }
        }
    }
    report(cases, Extent::Every { bound: bound() }).await;
}

/// Two events and a collector or an operator at once.
#[tokio::test]
async fn three_at_once() {
    if variable("INTERLEAVING").is_some() || variable("INTERLEAVINGS_ONLY").is_some() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(seed());
    let mut cases = Vec::new();
    for name in MEMBERS {
        let member = Member::new(name).await;
        for _ in 0..if is_all() { 10 } else { 4 } {
            let mut event = || ACTS[random.usize(0..EVENTS)];
            let events = [event(), event()];
            let third = ACTS[random.usize(EVENTS..ORDINARY)];
            cases.push(Case::new(&member, &[events[0], events[1], third]));
        }
    }
    let extent = if is_all() { Extent::Every { bound: 1000 } } else { Extent::Drawn { runs: 100 } };
    report(cases, extent).await;
}

/// Safety does not depend on the lock: two collectors that no lock excludes.
#[tokio::test]
async fn no_lock_holds() {
    if variable("INTERLEAVING").is_some() || variable("INTERLEAVINGS_ONLY").is_some() {
        return;
    }
    let mut cases = Vec::new();
    for name in MEMBERS {
        let mut member = Member::new(name).await;
        member.has_locks = false;
        for kinds in [["debit", "debit"], ["debit", "pay"], ["pay", "pay"]] {
            cases.push(Case::new(&member, &kinds));
        }
    }
    report(cases, Extent::Every { bound: if is_all() { bound() } else { 60 } }).await;
}

/// The reductions of the explorer lose no outcome: a search without them ends in the same ways.
#[tokio::test]
async fn reductions_lose_no_outcome() {
    for (name, kinds) in [
        ("scheduled", ["SUBMITTED", "CANCEL"]),
        ("completed", ["RETURNED", "waive"]),
        ("sent", ["COMPLETED", "debit"]),
    ] {
        let case = Case::new(&Member::new(name).await, &kinds);
        let mut ends = Vec::new();
        for reduction in [Reduction::None, Reduction::Equivalent] {
            let mut found = BTreeSet::new();
            let start = async || case.member.world(&case.acts, false).await;
            let end = async |ended: Ended<Memory>| {
                found.insert((ended.stage.outcome(), ended.results));
            };
            let explored = explore(usize::MAX, reduction, start, end).await;
            println!("{}, {reduction:?}: {explored:?}, {} different ends", case.name(), found.len());
            ends.push(found);
        }
        assert_eq!(ends[0], ends[1], "{}", case.name());
    }
}

/// The real engines take the model's way: the same schedule gives the same answer to every call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_engines_follow_the_model() {
    let mut random = fastrand::Rng::with_seed(seed());
    let pairs = pairs();
    for _ in 0..if is_all() { 300 } else { 12 } {
        let member = Member::new(MEMBERS[random.usize(0..MEMBERS.len())]).await;
        let case = Case::new(&member, &pairs[random.usize(0..pairs.len())]);
        let mut drawn = Vec::new();
        let start = async || member.world(&case.acts, true).await;
        sample(1, random.u64(..), start, async |ended| drawn.push(ended)).await;
        let model = drawn.remove(0);
        let (sqlite, _folder) = engines::embedded();
        let world = member.world_on(sqlite, &case.acts, true).await;
        compare(&case, &model, follow(world, &model.schedule).await, "SQLite").await;
        let (dynamo, _server) = engines::dynoxide().await;
        let world = member.world_on(dynamo, &case.acts, true).await;
        compare(&case, &model, follow(world, &model.schedule).await, "DynamoDB").await;
    }
}

async fn compare<E: Engine>(case: &Case, model: &Ended<Memory>, real: Ended<E>, engine: &str) {
    let what = format!("{} {} on {engine}", case.name(), digits(&model.schedule));
    let lines = |stage: &Stage| {
        let trace = stage.trace();
        trace.into_iter().map(|line| format!("{} {} {}", line.actor, line.step, line.result)).collect()
    };
    let (wanted, is): (Vec<String>, Vec<String>) = (lines(&model.stage), lines(&real.stage));
    assert_eq!(is, wanted, "{what}");
    assert_eq!(real.results, model.results, "{what}");
    assert_eq!(case.member.books(&real).await.view(), case.member.books(model).await.view(), "{what}");
}
