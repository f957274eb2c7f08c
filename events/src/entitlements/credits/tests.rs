use super::*;

fn t(text: &str) -> Time {
    crate::time::parse(text).unwrap()
}

fn grant() -> Movement {
    Movement::grant(
        "sub_1",
        t("2025-01-01T00:00:00Z"),
        5,
        t("2025-01-01T00:00:03Z"),
        "evt_1".into(),
        Some("in_1".into()),
    )
}

/// The example row of gg_core, attribute by attribute.
#[test]
fn a_balance_is_the_seeds_example() {
    let balance = Balance {
        next_grant_at: None,
        user: "abc123".into(),
        balance: 12,
        last_top_up: GoTime::read("2025-01-15T10:00:00Z").unwrap(),
        last_reset: GoTime::read("2025-01-01T00:00:00Z").unwrap(),
        expires_at: Some(1_735_689_600),
        created_at: GoTime::read("2025-01-01T00:00:00Z").unwrap(),
        updated_at: GoTime::read("2025-01-15T10:30:00Z").unwrap(),
    };
    let seed: serde_json::Value = serde_json::json!({
        "PK": "USER#abc123",
        "SK": "CREDITS#BALANCE",
        "type": "Credits",
        "balance": 12,
        "lastTopUp": "2025-01-15T10:00:00Z",
        "lastReset": "2025-01-01T00:00:00Z",
        "expiresAt": 1_735_689_600,
        "createdAt": "2025-01-01T00:00:00Z",
        "updatedAt": "2025-01-15T10:30:00Z"
    });
    let item = balance.to_item();
    assert_eq!(item.to_json(), seed);
    assert_eq!(
        (item.get("balance"), item.get("expiresAt")),
        (Some(&Value::N("12".into())), Some(&Value::N("1735689600".into())))
    );
    assert_eq!(Balance::from_item(item), Ok(balance));
}

#[test]
fn a_row_of_another_writer_may_have_little_in_it() {
    let mut item = Item::new();
    item.set_text(PK, "USER#u#1");
    item.set_text(SK, BALANCE_SORT);
    assert_eq!(
        Balance::from_item(item.clone()).unwrap_err().to_string(),
        "balance of row USER#u#1/CREDITS#BALANCE: is missing"
    );
    item.set(BALANCE, Value::signed(-3));
    let read = Balance::from_item(item.clone()).unwrap();
    assert_eq!(
        (read.user.as_str(), read.balance, read.has_expired(t("2099-01-01T00:00:00Z"))),
        ("u#1", -3, false)
    );
    item.set(EXPIRES_AT, Value::text("soon"));
    let error = Balance::from_item(item.clone()).unwrap_err();
    assert_eq!(error.to_string(), "expiresAt of row USER#u#1/CREDITS#BALANCE: is a string, not a number");
    item.set_text(PK, "GUILD#1");
    assert!(Balance::from_item(item).is_err());
}

#[test]
fn ids_come_from_the_fact() {
    let at = t("2025-02-01T00:00:00Z");
    let grant = grant();
    let back = Movement::take_back("re_1", &grant, at, "evt_2".into());
    let again = Movement::take_back("re_1-failed", &back, at, "evt_3".into());
    for (movement, id, kind, amount) in [
        (&grant, "grant:sub_1:2025-01-01T00:00:00Z", "GRANT", 5),
        (&Movement::top_up("pi_1", 10, at, "evt_4".into()), "topup:pi_1", "TOP_UP", 10),
        (&Movement::consume("key-1", Feature::Video, at), "consume:key-1", "CONSUME", -3),
        (&back, "takeback:re_1:grant:sub_1:2025-01-01T00:00:00Z", "TAKE_BACK", -5),
        (&again, "takeback:re_1-failed:takeback:re_1:grant:sub_1:2025-01-01T00:00:00Z", "TAKE_BACK", 5),
        (&Movement::expire(1_735_689_600, 0, 7), "expire:1735689600", "EXPIRE", -7),
        (&Movement::expire(1_735_689_600, 2, -7), "expire:1735689600:2", "EXPIRE", 0),
    ] {
        assert_eq!((movement.id.as_str(), movement.kind.as_str(), movement.amount), (id, kind, amount));
    }
    assert_eq!((back.payment.as_deref(), back.takes_back), (Some("in_1"), Some(grant.id)));
}

#[test]
fn a_movement_comes_back_from_its_row() {
    let at = t("2025-02-01T00:00:00.5Z");
    let all = [
        grant(),
        Movement::top_up("pi_1", 10, at, "evt_4".into()),
        Movement::consume("key-1", Feature::MirrorReport, at),
        Movement::take_back("re_1", &grant(), at, "evt_2".into()),
        Movement::expire(1_735_689_600, 0, 7),
    ];
    for movement in all {
        assert_eq!(Movement::from_item(movement.to_item(&"u".into())), Ok(movement.clone()));
        assert!(movement.has_same_content(&Movement {
            at,
            source: "another event".into(),
            ..movement.clone()
        }));
        assert!(!movement.has_same_content(&Movement { amount: movement.amount + 1, ..movement.clone() }));
        let mut item = movement.to_item(&"u".into());
        item.set_text(KIND, "GIFT");
        assert!(Movement::from_item(item).is_err());
    }
    let row = Movement::consume("key-1", Feature::Video, at).to_item(&"u".into()).to_json();
    let expected = serde_json::json!({
        "PK": "USER#u", "SK": "LEDGER#consume:key-1", "type": "CreditMovement", "movementId": "consume:key-1",
        "kind": "CONSUME", "amount": -3,
        "occurredAt": "2025-02-01T00:00:00.5Z", "source": "key-1", "feature": "VIDEO"
    });
    assert_eq!(row, expected);
}

#[test]
fn features_have_names_and_costs() {
    let features = Feature::ALL.map(|feature| (feature.as_str(), feature.title(), feature.cost()));
    let expected = [
        ("VIDEO", "Veo-3 Video Generation", 3),
        ("MENTOR_FEEDBACK", "AI Mentor Feedback", 1),
        ("MIRROR_REPORT", "Guild Mirror Report", 5),
    ];
    assert_eq!(features, expected);
    assert_eq!(Feature::ALL.map(|feature| Feature::read(feature.as_str())), Feature::ALL.map(Some));
    assert_eq!(MovementKind::ALL.map(|kind| MovementKind::read(kind.as_str())), MovementKind::ALL.map(Some));
}

#[test]
fn an_expiry_takes_a_positive_balance_and_leaves_a_negative_one() {
    let now = t("2026-01-01T00:00:00Z");
    let balance = Balance {
        balance: 7,
        expires_at: Some(now.timestamp()),
        ..Balance::new("u".into(), t("2025-01-01T00:00:00Z"))
    };
    assert!(balance.has_expired(now) && !balance.has_expired(now - TimeDelta::nanoseconds(1)));
    let after = balance.expired(now);
    assert_eq!((after.balance, after.expires_at, after.created_at), (0, None, balance.created_at.clone()));
    assert_eq!(Balance { balance: -2, ..balance }.expired(now).balance, -2);
}
