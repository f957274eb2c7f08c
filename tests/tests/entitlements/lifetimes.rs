//! Three hundred members over fourteen months: payments, returns, refunds, pauses, cancellations, Stripe,
//! founder passes and years, with a judge that shares no code with the system.
//!
//! The judge keeps what it sent as spans of time, with a calendar of its own, and compares profile, access
//! and group one second before and five minutes after each of its boundaries, and at the end of each month.

use dues_events::{PlanTier, Time};
use dues_processors::operators::audit::audit;
use dues_projections::entitlements::dues::TierMap;
use dues_tests::fixtures::company::{Sent, membership, monthly, payment, t};
use dues_tests::fixtures::stripe::{checkout, refund, subscription};
use fastrand::Rng;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

use super::world::{World, everywhere};

const MEMBERS: usize = 300;
const MONTHS: i64 = 14;
/// Seconds since 1970 of 1 January 2026.
const START: i64 = 1_767_225_600;
const DAY: i64 = 86_400;
const FOREVER: i64 = i64::MAX;
/// The due dates: few, so that many members share a batch.
const DAYS: [i64; 6] = [1, 7, 12, 18, 24, 28];

/// Midnight of a day of a month, counted from January 2026. Days up to 28, so that every month has them.
fn day_of(month: i64, day: i64) -> i64 {
    const LENGTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: i64 = (0..month).map(|n| LENGTHS[usize::try_from(n % 12).unwrap()]).sum();
    START + (before + day - 1) * DAY
}

fn time(seconds: i64) -> Time {
    Time::from_timestamp(seconds, 0).unwrap()
}

fn text(seconds: i64) -> String {
    time(seconds).format("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What happens to a member at a time.
#[derive(Debug, Clone)]
enum Action {
    /// A report about the record that is due at that time.
    Paid {
        due: i64,
        kind: &'static str,
        code: Option<&'static str>,
        transaction: String,
    },
    Member {
        kind: &'static str,
        terms: serde_json::Value,
    },
    Stripe(Sent),
}

/// A member: what is sent, and the spans in which the judge expects a tier.
#[derive(Default)]
struct Life {
    user: String,
    script: Vec<(i64, Action)>,
    /// From, to, tier. The highest of those that cover a time counts; a pass counts before all.
    spans: Vec<(i64, i64, PlanTier)>,
    passes: Vec<(i64, i64, PlanTier)>,
}

impl Life {
    fn expected(&self, at: i64) -> PlanTier {
        let covering = |spans: &[(i64, i64, PlanTier)]| {
            spans.iter().filter(|(from, to, _)| *from <= at && at < *to).map(|(.., tier)| *tier).max()
        };
        covering(&self.passes).or_else(|| covering(&self.spans)).unwrap_or(PlanTier::Free)
    }

    fn boundaries(&self) -> BTreeSet<i64> {
        let all = self.spans.iter().chain(&self.passes);
        all.flat_map(|(from, to, _)| [*from, *to]).filter(|at| *at != FOREVER).collect()
    }

    fn pays(&mut self, at: i64, due: i64, kind: &'static str, code: Option<&'static str>, transaction: &str) {
        let transaction = format!("{}-{transaction}", self.user);
        self.script.push((at, Action::Paid { due, kind, code, transaction }));
    }

    fn does(&mut self, at: i64, kind: &'static str, terms: serde_json::Value) {
        self.script.push((at, Action::Member { kind, terms }));
    }
}

/// Monthly dues on a day of the month. Each month one thing happens, and the judge notes what it gives.
fn dues(user: String, die: &mut Rng) -> Life {
    let mut life = Life { user, ..Life::default() };
    let day = DAYS[die.usize(..DAYS.len())];
    let tier = PlanTier::Journeyman;
    let due = |month: i64| day_of(month, day);
    life.does(due(0) - DAY / 2, "ACTIVATE", monthly(&text(due(0))[..10]));
    // Whether the month before is paid for, so that this month's debit is a renewal.
    let mut renews = false;
    let mut month = 0;
    while month < MONTHS {
        let (at, next) = (due(month), due(month + 1));
        let name = |n: u32| format!("{month}-{n}");
        life.pays(at + DAY / 3, at, "SUBMITTED", None, &name(1));
        // A renewal goes on while it is tried: from the due date to its outcome.
        let tried_until = |life: &mut Life, until: i64| {
            if renews {
                life.spans.push((at, until, tier));
            }
        };
        match die.u32(..20) {
            // Returned, presented again a week later, paid.
            0..=1 => {
                life.pays(at + 3 * DAY, at, "RETURNED", Some("R01"), &name(1));
                life.pays(at + 10 * DAY, at, "SUBMITTED", None, &name(2));
                life.pays(at + 12 * DAY, at, "COMPLETED", None, &name(2));
                tried_until(&mut life, at + 12 * DAY);
                life.spans.push((at + 12 * DAY, next, tier));
                renews = true;
            }
            // Returned, and nothing follows: fourteen days.
            2 => {
                life.pays(at + 3 * DAY, at, "RETURNED", Some("R01"), &name(1));
                tried_until(&mut life, at + 17 * DAY);
                renews = false;
            }
            // No account: it ends at once.
            3 => {
                life.pays(at + 3 * DAY, at, "RETURNED", Some("R03"), &name(1));
                tried_until(&mut life, at + 3 * DAY);
                renews = false;
            }
            // Three presentments.
            4 => {
                for n in 1..=3 {
                    let shift = i64::from(n - 1) * 5 * DAY;
                    if n > 1 {
                        life.pays(at + DAY / 3 + shift, at, "SUBMITTED", None, &name(n));
                    }
                    life.pays(at + 2 * DAY + shift, at, "RETURNED", Some("R01"), &name(n));
                }
                tried_until(&mut life, at + 12 * DAY);
                renews = false;
            }
            // Paid, and refunded ten days later.
            5 => {
                life.pays(at + 2 * DAY, at, "COMPLETED", None, &name(1));
                tried_until(&mut life, at + 2 * DAY);
                life.pays(at + 12 * DAY, at, "REFUNDED", None, &name(1));
                life.spans.push((at + 2 * DAY, at + 12 * DAY, tier));
                renews = false;
            }
            // Paid, and returned late: its own period is gone, the one before has its grace.
            6 => {
                life.pays(at + 2 * DAY, at, "COMPLETED", None, &name(1));
                life.pays(at + 8 * DAY, at, "RETURNED", Some("R01"), &name(1));
                tried_until(&mut life, at + 2 * DAY);
                life.spans.push((at + 2 * DAY, at + 8 * DAY, tier));
                if renews {
                    life.spans.push((at + 8 * DAY, at + 22 * DAY, tier));
                }
                renews = false;
            }
            // Paid, then a pause over the next due date: that month is not billed.
            7 => {
                life.pays(at + 2 * DAY, at, "COMPLETED", None, &name(1));
                tried_until(&mut life, at + 2 * DAY);
                life.spans.push((at + 2 * DAY, next, tier));
                life.does(at + 10 * DAY, "PAUSE", json!({"pause_duration_months": 3}));
                life.does(next + 5 * DAY, "UNPAUSE", json!({}));
                renews = false;
                month += 1;
            }
            // Paid, cancelled, retracted.
            8 => {
                life.pays(at + 2 * DAY, at, "COMPLETED", None, &name(1));
                tried_until(&mut life, at + 2 * DAY);
                life.spans.push((at + 2 * DAY, next, tier));
                life.does(at + 5 * DAY, "CANCEL", json!({}));
                life.does(at + 15 * DAY, "RETRACT", json!({}));
                renews = true;
            }
            // Paid, and left for good.
            9 => {
                life.pays(at + 2 * DAY, at, "COMPLETED", None, &name(1));
                tried_until(&mut life, at + 2 * DAY);
                life.spans.push((at + 2 * DAY, next, tier));
                let kind = if die.bool() { "CANCEL" } else { "CLOSEACCOUNT" };
                life.does(at + die.i64(3..20) * DAY, kind, json!({}));
                return life;
            }
            _ => {
                life.pays(at + 2 * DAY, at, "COMPLETED", None, &name(1));
                tried_until(&mut life, at + 2 * DAY);
                life.spans.push((at + 2 * DAY, next, tier));
                renews = true;
            }
        }
        month += 1;
    }
    if renews {
        // The next renewal is expected, and nothing is known of it.
        life.spans.push((due(month), FOREVER, tier));
    }
    life
}

/// A subscription at Stripe on the first of each month.
fn stripe(user: String, die: &mut Rng) -> Life {
    let mut life = Life { user, ..Life::default() };
    let event = |life: &mut Life, at: i64, kind: &str, status: &str, month: i64| {
        let id = format!("{}-{at}-{status}", life.user);
        let from = text(day_of(month, 1));
        let sent = subscription(&id, kind, &text(at), &life.user, "SAGE", status, &from);
        life.script.push((at, Action::Stripe(sent)));
    };
    let (tier, first) = (PlanTier::Sage, die.i64(0..6));
    event(&mut life, day_of(first, 1), "created", "active", first);
    let mut since = day_of(first, 1);
    for month in first + 1..=MONTHS {
        let begins = day_of(month, 1);
        match die.u32(..12) {
            // The renewal's event is lost for five days.
            0 => {
                life.spans.push((since, begins + 3 * DAY, tier));
                since = begins + 5 * DAY;
                event(&mut life, since, "updated", "active", month);
            }
            1 => {
                event(&mut life, begins + 3600, "updated", "past_due", month);
                event(&mut life, begins + 9 * DAY, "updated", "active", month);
            }
            // Cancelled in the middle: paid for until the end.
            2 => {
                event(&mut life, begins - 9 * DAY, "deleted", "canceled", month - 1);
                life.spans.push((since, begins, tier));
                return life;
            }
            // Stripe gives up.
            3 => {
                event(&mut life, begins + 3600, "updated", "past_due", month);
                event(&mut life, begins + 12 * DAY, "updated", "unpaid", month);
                life.spans.push((since, begins + 12 * DAY, tier));
                return life;
            }
            _ => event(&mut life, begins + 3600, "updated", "active", month),
        }
    }
    life.spans.push((since, day_of(MONTHS + 1, 1) + 3 * DAY, tier));
    life
}

/// A year of dues: one payment, and nothing but time until it ends.
fn yearly(user: String, die: &mut Rng) -> Life {
    let mut life = Life { user, ..Life::default() };
    let (day, tier) = (DAYS[die.usize(..DAYS.len())], PlanTier::Journeyman);
    let (due, end) = (day_of(0, day), day_of(12, day));
    let mut terms = monthly(&text(due)[..10]);
    terms["term"] = "YEARLY".into();
    life.does(due - DAY / 2, "ACTIVATE", terms);
    life.pays(due + DAY / 3, due, "SUBMITTED", None, "y-1");
    life.pays(due + 2 * DAY, due, "COMPLETED", None, "y-1");
    match die.u32(..3) {
        // Cancelled long after the settlement can no longer be returned.
        0 => {
            life.does(day_of(die.i64(4..11), day) + DAY, "CANCEL", json!({}));
            life.spans.push((due + 2 * DAY, end, tier));
        }
        1 => {
            let back = day_of(die.i64(1..11), day) + 5 * DAY;
            life.pays(back, due, "REFUNDED", None, "y-1");
            life.spans.push((due + 2 * DAY, back, tier));
        }
        _ => life.spans.push((due + 2 * DAY, FOREVER, tier)),
    }
    life
}

/// Adds a founder pass, which may be refunded.
fn with_pass(mut life: Life, die: &mut Rng) -> Life {
    let bought = day_of(die.i64(1..12), die.i64(1..28)) + 7200;
    let (user, payment) = (life.user.clone(), format!("pi_pass_{}", life.user));
    let (kind, tier) =
        [("FOUNDING_MEMBER", PlanTier::Sage), ("GUILD_BUILDER", PlanTier::Guildmaster)][die.usize(..2)];
    let pass = checkout(&format!("pass-{user}"), &text(bought), &user, kind, 99_900, &payment, "paid");
    life.script.push((bought, Action::Stripe(pass)));
    let mut until = FOREVER;
    if die.u32(..3) == 0 {
        until = bought + die.i64(1..60) * DAY;
        let (id, re) = (format!("back-{user}"), format!("re_{user}"));
        let back = refund(&id, "created", &text(until), &re, &payment, 99_900, "succeeded");
        life.script.push((until, Action::Stripe(back)));
    }
    life.passes.push((bought, until, tier));
    life
}

fn lives(seed: u64) -> Vec<Life> {
    let mut die = Rng::with_seed(seed);
    (0..MEMBERS)
        .map(|n| {
            let user = format!("u-{n}");
            let life = match n % 10 {
                0..=5 => dues(user, &mut die),
                6..=8 => stripe(user, &mut die),
                _ => yearly(user, &mut die),
            };
            if die.u32(..12) == 0 { with_pass(life, &mut die) } else { life }
        })
        .collect()
}

/// The records to send for a member's action.
async fn sent(world: &World, life: &Life, n: usize, at: i64, action: &Action) -> Sent {
    let id = format!("{}-{n}", life.user);
    match action {
        Action::Stripe(sent) => sent.clone(),
        Action::Member { kind, terms } => membership(&id, kind, &life.user, &text(at), terms.clone()),
        Action::Paid { due, kind, code, transaction } => {
            let record = world.record_due(&life.user, time(*due)).await;
            let record = record.unwrap_or_else(|| panic!("{} has no record due {}", life.user, text(*due)));
            let (stream, mut body) = payment(&id, kind, &record, transaction, &text(at));
            if let Some(code) = code {
                body["payment"]["return_code"] = json!(code);
            }
            (stream, body)
        }
    }
}

async fn judge(world: &World, life: &Life, at: i64, what: &str) {
    let expected = life.expected(at);
    let seen = world.seen(&life.user, time(at)).await;
    assert_eq!(seen, everywhere(expected), "{} {what} {}: {:#?}", life.user, text(at), life.script);
}

#[tokio::test]
async fn a_judge_with_a_calendar_of_its_own_agrees_at_every_boundary() {
    let seed = std::env::var("DUES_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    let lives = lives(seed);
    let end = day_of(MONTHS, 1);
    // What happens at each time: events, then the clock where the judge looks.
    let mut agenda: BTreeMap<i64, Vec<(usize, Option<usize>)>> = BTreeMap::new();
    for (m, life) in lives.iter().enumerate() {
        for (n, (at, _)) in life.script.iter().enumerate().filter(|(_, (at, _))| *at < end) {
            agenda.entry(*at).or_default().push((m, Some(n)));
        }
        for at in life.boundaries().into_iter().filter(|at| *at < end) {
            agenda.entry(at - 1).or_default().push((m, None));
            agenda.entry(at + 299).or_default().push((m, None));
        }
    }
    for month in 1..=MONTHS {
        agenda.entry(day_of(month, 1) - 1).or_default().extend((0..MEMBERS).map(|m| (m, None)));
    }
    let mut world = World::at(t("2026-01-01T00:00:00Z"));
    let mut looks = 0_u32;
    for (at, entries) in agenda {
        let mut batches: BTreeMap<&'static str, Vec<Sent>> = BTreeMap::new();
        for (m, n) in entries.iter().filter_map(|(m, n)| Some((*m, (*n)?))) {
            world.clock.set_now(time(at));
            let (stream, body) = sent(&world, &lives[m], n, at, &lives[m].script[n].1).await;
            batches.entry(stream).or_default().push((stream, body));
        }
        for batch in batches.values() {
            world.send(time(at), batch).await;
        }
        if entries.iter().any(|(_, n)| n.is_none()) {
            world.tick(time(at)).await;
        }
        for (m, _) in entries.iter().filter(|(_, n)| n.is_none()) {
            looks += 1;
            judge(&world, &lives[*m], at, "at").await;
        }
    }
    println!("{looks} looks");
    assert!(looks > 8_000, "{looks}");
    world.tick(time(end)).await;
    assert_eq!(world.store().parked().await.unwrap(), vec![]);
    let found = audit(&world.store(), &TierMap::default(), &world.models, |_| {}).await.unwrap();
    assert_eq!(found.findings, []);
    // A year that was paid and kept has brought twelve months of credits.
    for life in lives.iter().filter(|life| life.passes.is_empty()) {
        let is_year = life.script.iter().any(
            |(_, action)| matches!(action, Action::Paid { transaction, .. } if transaction.ends_with("y-1")),
        );
        let kept = life.spans.iter().any(|(_, to, _)| *to >= day_of(12, 1));
        if is_year {
            let credits = world.store().check_ledger(&life.user.as_str().into()).await.unwrap();
            assert!(credits.agrees());
            assert_eq!(credits.balance, if kept { 5 * 12 } else { 0 }, "{}", life.user);
        }
    }
}
