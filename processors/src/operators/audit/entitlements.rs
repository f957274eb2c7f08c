//! Entitlements: tiers, passes, subscriptions and credits, compared with the payments they come from.

use chrono::TimeDelta;
use dues_events::attributes::{PK, SK, TYPE};
use dues_events::billing::record::{History, Provider, ReadError};
use dues_events::entitlements::credits::{BALANCE_SORT, MOVEMENT_TYPE, Movement, MovementKind};
use dues_events::entitlements::group_effect::{GROUPS_EFFECT_SORT, GroupsEffect};
use dues_events::entitlements::profile::profile_sort;
use dues_events::entitlements::rows::{PASS_PREFIX, SUBSCRIPTION_PREFIX};
use dues_events::{Balance, Item, MovementId, Profile, Time, UserId};
use dues_projections::entitlements::dues::{
    DuesState, EntitlementChange, TierMap, entitlement_changes, month_grant,
};
use dues_projections::entitlements::effective_tier::EffectiveTier;
use dues_projections::entitlements::stripe::{fold, rows};
use dues_store::entitlements::Book;
use dues_store::table::{ENTITLEMENTS, GG_CORE};
use dues_store::{Engine, Store, StoreError};
use std::collections::BTreeMap;

use super::{Audit, FindingKind, differences};
use crate::entitlements::decode_effective_tier;

type Rows = BTreeMap<String, Item>;

/// How long a timer may wait for the entitlement clock: three of its runs.
const TIMER_LATENCY: TimeDelta = TimeDelta::minutes(15);
/// The months of a paid year after the first.
const LATER_MONTHS: u32 = 11;

/// Compares everything a user has in `gg_core` with the user's journal and billing history.
pub(super) async fn check<E: Engine>(
    audit: &mut Audit,
    store: &Store<E>,
    user: &UserId,
    book: &[Item],
    history: &[History],
    tiers: &TierMap,
    core: Vec<Item>,
) -> Result<(), StoreError> {
    let head = || format!("USER#{user}/HEAD");
    let book = match Book::read(book) {
        // A commit came in between the reads, or an event is missing: read again.
        Ok(None) => store.entitlement_book(user).await,
        Ok(Some(book)) => Ok(book),
        Err(error) => Err(error),
    };
    let book = match book {
        Ok(book) => book,
        Err(StoreError::Contended(_)) => {
            audit.find(FindingKind::Gap, &ENTITLEMENTS, head(), "there are not as many events as it counts");
            return Ok(());
        }
        Err(StoreError::Unreadable(error)) => {
            audit.find(FindingKind::Unreadable, &ENTITLEMENTS, &error.key, error.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    audit.events += book.facts.len() as u64;
    audit.rows += core.len() as u64;
    let there: Rows =
        core.into_iter().map(|item| (item.text(SK).unwrap_or_default().to_owned(), item)).collect();
    let now = store.clock.now();
    let compared = compare(audit, (user, now), &book, history, tiers, &there);
    if let Err(error) = compared {
        audit.find(FindingKind::Unreadable, &GG_CORE, &error.key, error.to_string());
    }
    Ok(())
}

fn compare(
    audit: &mut Audit,
    (user, now): (&UserId, Time),
    book: &Book,
    history: &[History],
    tiers: &TierMap,
    there: &Rows,
) -> Result<(), ReadError> {
    let entitlement = fold(&book.facts, book.head.counted_until.unwrap_or_default());
    let expected = rows(user, &entitlement);
    for (sort, item) in there
        .iter()
        .filter(|(sort, _)| sort.starts_with(SUBSCRIPTION_PREFIX) || sort.starts_with(PASS_PREFIX))
    {
        match expected.get(sort) {
            Some(wanted) if wanted == item => {}
            Some(wanted) => audit.find(FindingKind::Differs, &GG_CORE, key(item), differences(item, wanted)),
            None => {
                audit.find(FindingKind::Unexplained, &GG_CORE, key(item), "no Stripe event accounts for it")
            }
        }
    }
    for (sort, item) in expected.iter().filter(|(sort, _)| !there.contains_key(*sort)) {
        audit.find(FindingKind::Missing, &GG_CORE, key(item), format!("Stripe's events imply {sort}"));
    }
    let mut grants: BTreeMap<String, i64> = entitlement
        .grants
        .iter()
        .map(|(name, grant)| (name.clone(), i64::try_from(grant.stands).unwrap_or(i64::MAX)))
        .collect();
    let changes = entitlement_changes(history, tiers, None);
    let expected = EffectiveTier::of_facts(&entitlement, &changes);
    let known = match decode_effective_tier(&book.head) {
        Ok(known) => known,
        Err(error) => {
            audit.find(
                FindingKind::Unreadable,
                &ENTITLEMENTS,
                format!("USER#{user}/HEAD"),
                error.to_string(),
            );
            return Ok(());
        }
    };
    dues(&changes, &known, &mut grants);
    profile(audit, (user, now), book, &known, expected, there)?;
    credits(audit, user, &grants, there)
}

/// The credits of each settlement, and of the later months of paid years as far as the head has counted them.
fn dues(changes: &[EntitlementChange], known: &EffectiveTier, grants: &mut BTreeMap<String, i64>) {
    let mut years = BTreeMap::new();
    for change in changes {
        if let Some((settled, tier)) = &change.settled {
            grants.insert(settled.grant.to_string(), tier.monthly_credits().into());
        }
        if let Some(gone) = &change.gone {
            grants.insert(gone.grant.to_string(), 0);
        }
        let record = &change.paid_period.record;
        match &change.paid_period.state {
            DuesState::Paid { tier, settled: Some(settled), .. } => {
                years.entry(record).or_insert((*tier, settled.clone())).0 = *tier;
            }
            DuesState::Paid { settled: None, .. }
            | DuesState::Failed { .. }
            | DuesState::Retried
            | DuesState::TakenBack
            | DuesState::Ended
            | DuesState::Open => {
                years.remove(record);
            }
        }
    }
    for (record, (tier, settled)) in years {
        // A year that the head has forgotten is over.
        let of_record = known.paid_periods.iter().find(|period| period.record == *record);
        for month in 1..=of_record.map_or(LATER_MONTHS, |period| period.months) {
            grants.insert(month_grant(record, &settled, month).to_string(), tier.monthly_credits().into());
        }
    }
}

/// Compares the head with the facts, and the profile with the head at this time.
fn profile(
    audit: &mut Audit,
    (user, now): (&UserId, Time),
    book: &Book,
    known: &EffectiveTier,
    mut expected: EffectiveTier,
    there: &Rows,
) -> Result<(), ReadError> {
    // Other services may write profiles of users without events here. Heads of an earlier version wait for
    // the entitlement clock.
    if book.head.version == 0 || known.is_outdated() {
        return Ok(());
    }
    let sort = profile_sort(user);
    let key = format!("USER#{user}/{sort}");
    let head = || format!("USER#{user}/HEAD");
    take_bookings(&mut expected, known);
    if *known != expected {
        let detail = format!("it stands for {known:?} and should for {expected:?}");
        audit.find(FindingKind::Differs, &ENTITLEMENTS, head(), detail);
    }
    audit.overdue_timers += u64::from(book.head.timer.is_some_and(|timer| timer + TIMER_LATENCY < now));
    let Some(item) = there.get(&sort) else {
        audit.find(FindingKind::Missing, &GG_CORE, key, "the user was booked and has no profile");
        return Ok(());
    };
    let profile = Profile::from_item(item.clone())?;
    let should = expected.view(now);
    // What changes by itself is booked by the next run of the clock.
    let awaits_clock = book.head.timer.is_some_and(|timer| timer <= now);
    let tier = if awaits_clock { known.shown } else { should.tier };
    let tier = tier.unwrap_or(profile.tier);
    let (provider, dues) = (should.provider, should.dues);
    if profile.tier != tier || profile.dues != dues || (provider.is_some() && profile.provider != provider) {
        let shows = |tier: dues_events::PlanTier,
                     dues: &Option<dues_events::entitlements::profile::PaidDues>| {
            let dues = dues.as_ref().map_or(String::new(), |dues| {
                format!(" with dues of {} until {}", dues.tier, dues.until.text())
            });
            format!("{tier}{dues}")
        };
        let detail =
            format!("it shows {} and should show {}", shows(profile.tier, &profile.dues), shows(tier, &dues));
        audit.find(FindingKind::Tier, &GG_CORE, key.as_str(), detail);
    }
    match there.get(GROUPS_EFFECT_SORT).map(|item| GroupsEffect::from_item(item.clone())).transpose()? {
        Some(effect)
            if profile.provider == Some(Provider::Cognito)
                && effect.parked.is_none()
                && !effect.is_applied_for(profile.tier) =>
        {
            let was = effect.tier.map_or("nothing".to_owned(), |tier| tier.to_string());
            audit.find(
                FindingKind::Groups,
                &GG_CORE,
                key,
                format!("the groups are those of {was}, the tier is {}", profile.tier),
            );
        }
        Some(_) | None => {}
    }
    Ok(())
}

/// Takes over what only bookings know, and no fact: what was shown, listed and counted.
fn take_bookings(expected: &mut EffectiveTier, known: &EffectiveTier) {
    expected.shown = known.shown;
    for held in &mut expected.subscriptions {
        held.overdue = known.subscriptions.iter().any(|other| other.id == held.id && other.overdue);
    }
    for period in &mut expected.paid_periods {
        let same = known.paid_periods.iter().find(|other| other.record == period.record);
        period.months = same.map_or(0, |same| same.months);
    }
}

/// Compares the balance with the ledger, and the ledger with what the payments grant.
fn credits(
    audit: &mut Audit,
    user: &UserId,
    grants: &BTreeMap<String, i64>,
    there: &Rows,
) -> Result<(), ReadError> {
    let (mut sum, mut granted): (i64, BTreeMap<String, i64>) = (0, BTreeMap::new());
    for item in there.values().filter(|item| item.text(TYPE) == Some(MOVEMENT_TYPE)) {
        let movement = Movement::from_item(item.clone())?;
        audit.events += 1;
        sum += movement.amount;
        match movement.kind {
            MovementKind::Grant | MovementKind::TopUp => {
                *granted.entry(base(&movement.id)).or_default() += movement.amount
            }
            MovementKind::TakeBack => {
                if let Some(of) = &movement.takes_back {
                    *granted.entry(base(of)).or_default() += movement.amount;
                }
            }
            MovementKind::Consume | MovementKind::Expire => {}
        }
    }
    let balance = match there.get(BALANCE_SORT) {
        Some(item) => Balance::from_item(item.clone())?.balance,
        None => 0,
    };
    if balance != sum {
        let detail = format!("the balance is {balance}, its ledger adds up to {sum}");
        audit.find(FindingKind::Balance, &GG_CORE, format!("USER#{user}/{BALANCE_SORT}"), detail);
    }
    let names = grants.keys().chain(granted.keys().filter(|name| !grants.contains_key(*name)));
    for name in names {
        let (has, should) = (granted.get(name).copied().unwrap_or(0), grants.get(name).copied().unwrap_or(0));
        if has != should {
            let detail = format!("{has} credits stand of it, its payment has brought {should}");
            audit.find(FindingKind::Credits, &GG_CORE, format!("USER#{user}/LEDGER#{name}"), detail);
        }
    }
    Ok(())
}

/// The id of the grant, without the suffix of a repeated grant.
fn base(id: &MovementId) -> String {
    id.as_str().split('@').next().unwrap_or_default().to_owned()
}

fn key(item: &Item) -> String {
    format!("{}/{}", item.text(PK).unwrap_or("?"), item.text(SK).unwrap_or("?"))
}
