//! Any sequence of movements, with duplicates, late ones, expiries and removals.

use chrono::TimeDelta;
use dues_events::{Balance, Feature, MovementId, MovementKind};
use dues_store::entitlements::credits::Moved;
use dues_store::{Condition, Engine as _};
use dues_tests::clock::TestClock;
use dues_tests::engines::memory::Memory;
use proptest::prelude::*;
use std::collections::BTreeMap;

use super::*;

/// A generated movement; every combination of numbers is valid.
#[derive(Debug, Clone)]
struct GeneratedMovement {
    kind: usize,
    /// Which payment, period or key: few, so that many repeat.
    which: u32,
    credits: u32,
    /// How many days ago it happened.
    late_days: i64,
    /// How many days pass before it arrives.
    wait_days: i64,
}

fn generated_movements() -> impl Strategy<Value = Vec<GeneratedMovement>> {
    let wait = prop_oneof![8 => 0i64..20, 1 => 300i64..800];
    let movement = (0usize..7, 0u32..5, 0u32..20, 0i64..500, wait).prop_map(
        |(kind, which, credits, late_days, wait_days)| GeneratedMovement {
            kind,
            which,
            credits,
            late_days,
            wait_days,
        },
    );
    prop::collection::vec(movement, 1..60)
}

async fn play(generated: &[GeneratedMovement]) {
    let engine = Memory::default();
    let mut now = t("2026-01-01T00:00:00Z");
    let mut done: BTreeMap<MovementId, Movement> = BTreeMap::new();
    let mut images: Vec<Item> = Vec::new();
    for drawn in generated {
        now += TimeDelta::days(drawn.wait_days);
        let store = Store::new(engine.clone(), TestClock::frozen(now).shared());
        let at = now - TimeDelta::days(drawn.late_days);
        let GeneratedMovement { which, credits, .. } = *drawn;
        let period = t("2026-01-01T00:00:00Z") + TimeDelta::days(30 * i64::from(which));
        let there = engine.get(&GG_CORE, balance_key()).await.unwrap();
        let expired = there.clone().is_some_and(|row| Balance::from_item(row).unwrap().has_expired(now));
        let movement = match drawn.kind {
            0 => Movement::grant("sub", period, 5, at, "evt".into(), None),
            1 => Movement::top_up(&format!("pi_{which}"), credits, at, "evt".into()),
            2 | 3 => Movement::consume(&format!("k_{which}"), Feature::ALL[credits as usize % 3], at),
            4 => match done.values().nth(which as usize) {
                Some(of) => Movement::take_back(&format!("re_{}", credits % 2), of, at, "evt".into()),
                None => continue,
            },
            5 => {
                // TTL, once expired; its stream delivers the removal later, and repeatedly.
                if let Some(row) = there.filter(|_| expired) {
                    engine.delete(&GG_CORE, balance_key(), Condition::Always).await.unwrap();
                    images.push(row);
                }
                continue;
            }
            _ => {
                for image in &images {
                    store.balance_row_removed(&user(), image).await.unwrap();
                }
                continue;
            }
        };
        match store.move_credits(&user(), &movement).await.unwrap() {
            Moved::Done(after) => {
                assert!(
                    movement.kind != MovementKind::Consume || (after >= 0 && !expired),
                    "{movement:?} left {after}"
                );
                assert!(done.insert(movement.id.clone(), movement).is_none(), "done twice");
            }
            Moved::Known(row) => assert_eq!(done.get(&movement.id), Some(&row)),
            Moved::Different => assert!(!done[&movement.id].has_same_content(&movement)),
            Moved::NotEnough(balance) => assert!(balance < -movement.amount, "{movement:?} of {balance}"),
        }
        if images.is_empty() {
            checked(&store).await;
        }
    }
    let store = Store::new(engine.clone(), TestClock::frozen(now).shared());
    for image in &images {
        store.balance_row_removed(&user(), image).await.unwrap();
    }
    checked(&store).await;
    let ledger = store.ledger(&user()).await.unwrap();
    let booked: BTreeMap<_, _> =
        ledger.into_iter().filter(|m| m.kind != MovementKind::Expire).map(|m| (m.id.clone(), m)).collect();
    assert_eq!(booked, done, "the ledger has what was done, and nothing else");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn the_balance_is_the_sum_of_the_ledger_whatever_comes(generated in generated_movements()) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(play(&generated));
    }
}
