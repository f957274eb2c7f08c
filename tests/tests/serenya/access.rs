//! Every access pattern and sample query of serenya, by its name.

use super::*;
use dues_processors::serenya as model;
use dues_store::Query;
use sha2::{Digest as _, Sha256};

dues_tests::on_engines! {
    find_users_by_email_address_hashed_for_privacy,
    find_users_by_oauth_provider_external_id,
    find_user_by_google_apple_external_id,
    create_new_user_with_all_embedded_data,
    update_user_session_data,
    create_new_payment_record,
    get_users_payment_history,
    get_users_current_subscription_embedded_in_user_profile,
    update_subscription_embedded_in_user_profile,
    check_usage_limits_embedded_in_subscription_data,
    lambda_endpoint_to_expose_tiers,
    lambda_endpoint_to_expose_chat_options,
    system_wide_configuration,
}

async fn by_index<E: Engine>(engine: &E, index: &'static str, key: String) -> Vec<Value> {
    let page = engine.query(Query::index(&SERENYA, index, key)).await.unwrap();
    page.items.iter().map(Item::to_json).collect()
}

async fn find_users_by_email_address_hashed_for_privacy<E: Engine>(engine: E) {
    ada(&engine).await;
    let hash: String = Sha256::digest(b"ada@example.com").iter().map(|byte| format!("{byte:02x}")).collect();
    let found = by_index(&engine, "GSI1-EmailLookup", format!("USER_EMAIL#{hash}")).await;
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0]["PK"].as_str(), found[0]["SK"].as_str(), found[0]["GSI1SK"].as_str()),
        (Some("USER#u-1"), Some("PROFILE"), Some("PROFILE"))
    );
    for spelled in ["ada@example.com", " Ada@Example.COM "] {
        let user = model::find_by_email(&at(&engine, NOW), spelled).await.unwrap().unwrap();
        assert_eq!(user.text("id"), Some("u-1"), "{spelled}");
    }
    assert_eq!(model::find_by_email(&at(&engine, NOW), "eve@example.com").await.unwrap(), None);
    deliver(
        &engine,
        "e-1",
        "user.updated",
        "2026-03-02T00:00:00Z",
        json!({"user_id": "u-1", "email": "ada@example.org"}),
    )
    .await;
    assert_eq!(
        model::find_by_email(&at(&engine, NOW), "ada@example.com").await.unwrap(),
        None,
        "it is hers no more"
    );
    assert!(model::find_by_email(&at(&engine, NOW), "ada@example.org").await.unwrap().is_some());
}

async fn find_users_by_oauth_provider_external_id<E: Engine>(engine: E) {
    ada(&engine).await;
    let found =
        by_index(&engine, "GSI2-ExternalAuth", "USER_EXTERNAL#google#113426185144286227617".to_owned()).await;
    assert_eq!((found.len(), found[0]["data"]["name"].as_str()), (1, Some("Ada")));
    assert_eq!(
        by_index(&engine, "GSI2-ExternalAuth", "USER_EXTERNAL#apple#113426185144286227617".to_owned()).await,
        Vec::<Value>::new()
    );
}

async fn find_user_by_google_apple_external_id<E: Engine>(engine: E) {
    ada(&engine).await;
    let body = json!({"auth_provider": "google", "external_id": "113426185144286227617"});
    let found = ask(&engine, "POST", "users/find", body).await;
    assert_eq!((found.status, found.body["id"].as_str()), (200, Some("u-1")));
    let none =
        ask(&engine, "POST", "users/find", json!({"auth_provider": "apple", "external_id": "1"})).await;
    assert_eq!((none.status, none.body["error"]["code"].as_str()), (404, Some("not_found")));
}

async fn create_new_user_with_all_embedded_data<E: Engine>(engine: E) {
    let data = ada(&engine).await;
    let row = row(&engine, "PROFILE").await.unwrap();
    assert_eq!(row["data"], data);
    assert_eq!(
        data,
        json!({"id": "u-1", "email": "ada@example.com", "name": "Ada", "auth_provider": "google",
            "external_id": "113426185144286227617",
            "account_status": "active",
            "consents": {"medical_disclaimers": false, "terms_of_service": false, "privacy_policy": false,
                "consent_version": null, "consent_date": null},
            "current_device": null, "current_session": null, "biometric": null,
            "subscription": {"subscription_id": "sub_free_u-1", "subscription_type": "free",
                "subscription_status": "active", "provider": "internal",
                "external_subscription_id": null, "start_date": "2026-03-01T00:00:00Z",
                "end_date": "2027-03-01T00:00:00Z", "auto_renew": true,
                "trial_period_days": 0, "grace_period_days": 7,
                "usage_current_period": {"documents_processed": 0, "period_start": "2026-03-01T00:00:00Z",
                    "period_end": "2026-03-31T00:00:00Z"}}})
    );
    assert_eq!(
        (row["entity_type"].as_str(), row["created_at"].as_str(), row["updated_at"].as_str()),
        (Some("user"), Some(NOW), Some(NOW))
    );
    assert_eq!(row["ttl"], json!(t("2026-03-02T00:00:00Z").timestamp()), "24 hours");

    // "Prevent duplicates", also by sign-in and by email; the same request may be repeated.
    let body = |more: Value| {
        let mut body = json!({"email": "eve@example.com", "name": "Eve", "auth_provider": "apple",
            "external_id": "a-1"});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let post = |body: Value| ask(&engine, "POST", "users", body);
    assert_eq!(post(body(json!({"id": "u-1"}))).await.status, 409);
    assert_eq!(post(body(json!({"email": "ADA@example.com"}))).await.status, 409);
    let made = post(body(json!({"event_id": "c-1"}))).await;
    assert_eq!(
        (made.status, post(body(json!({"event_id": "c-1"}))).await),
        (201, Response::of(200, made.body.clone()))
    );
    assert_eq!(post(body(json!({}))).await.status, 409, "that sign-in is taken");
    assert_eq!(post(body(json!({"event_id": "c-1", "name": "Mallory"}))).await.status, 409);
    let wrong = post(json!({"id": "u-2", "email": "no-address", "name": "N", "auth_provider": "google",
            "external_id": "1"}))
    .await;
    assert_eq!(
        (wrong.status, wrong.body["error"]["message"].as_str()),
        (422, Some("email: is not an email address"))
    );
}

async fn update_user_session_data<E: Engine>(engine: E) {
    ada(&engine).await;
    let session = json!({"event_id": "s-1", "session_id": "sess_abc", "access_token_hash": "aa",
        "refresh_token_hash": "bb", "user_agent": "SerenyaApp/1.2.3",
        "source_ip": "192.0.2.1", "biometric_expires_at": "2026-03-08T00:00:00Z"});
    let updated = ask_at(&engine, "2026-03-01T10:00:00Z", "POST", "users/u-1/session", session.clone()).await;
    assert_eq!((updated.status, updated.body["outcome"].as_str()), (200, Some("applied")), "{updated:?}");
    let row = row(&engine, "PROFILE").await.unwrap();
    assert_eq!(
        row["data"]["current_session"],
        json!({"session_id": "sess_abc", "access_token_hash": "aa", "refresh_token_hash": "bb",
            "issued_at": "2026-03-01T10:00:00Z",
            "expires_at": "2026-03-02T10:00:00Z", "last_accessed_at": "2026-03-01T10:00:00Z",
            "biometric_expires_at": "2026-03-08T00:00:00Z",
            "user_agent": "SerenyaApp/1.2.3", "source_ip": "192.0.2.1"})
    );
    assert_eq!(
        (&row["ttl"], row["updated_at"].as_str()),
        (&json!(t("2026-03-02T10:00:00Z").timestamp()), Some("2026-03-01T10:00:00Z"))
    );
    let again = ask_at(&engine, "2026-03-01T11:00:00Z", "POST", "users/u-1/session", session).await;
    assert_eq!(again.body["outcome"], "known", "whenever it is asked again");
    let used = ask_at(
        &engine,
        "2026-03-01T12:00:00Z",
        "POST",
        "users/u-1/session/access",
        json!({"event_id": "s-2", "session_id": "sess_abc"}),
    )
    .await;
    assert_eq!(used.body["profile"]["current_session"]["last_accessed_at"], "2026-03-01T12:00:00Z");
    let over = ask_at(
        &engine,
        "2026-03-01T13:00:00Z",
        "POST",
        "users/u-1/session/end",
        json!({"event_id": "s-3", "session_id": "sess_abc"}),
    )
    .await;
    assert_eq!(over.body["profile"]["current_session"], Value::Null);
    assert_eq!(
        super::row(&engine, "PROFILE").await.unwrap().get("ttl"),
        None,
        "nothing is left that could end"
    );
}

async fn create_new_payment_record<E: Engine>(engine: E) {
    ada(&engine).await;
    let body = json!({"event_id": "p-1", "payment_id": "payment-abc-123",
        "subscription_id": "sub_premium_456", "amount": 9.99, "currency": "USD",
        "payment_status": "completed", "payment_method": "apple_pay",
        "provider_transaction_id": "apple_pay_transaction_123456",
        "provider_receipt_data": "base64_encoded_receipt", "provider_sandbox": false,
        "initiated_at": "2026-02-28T23:50:00Z", "platform": "ios", "app_version": "1.2.3"});
    let made = ask(&engine, "POST", "users/u-1/payments", body).await;
    assert_eq!(made.status, 200, "{made:?}");
    let row = row(&engine, "PAYMENT#2026-02-28#payment-abc-123").await.unwrap();
    let receipt: String =
        Sha256::digest(b"base64_encoded_receipt").iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        row["data"],
        json!({"payment_id": "payment-abc-123", "user_id": "u-1", "subscription_id": "sub_premium_456",
            "amount": 9.99, "currency": "USD",
            "payment_status": "completed", "payment_method": "apple_pay",
            "provider_transaction_id": "apple_pay_transaction_123456",
            "provider_receipt_data": receipt, "provider_sandbox": false,
            "initiated_at": "2026-02-28T23:50:00Z", "processed_at": NOW,
            "platform": "ios", "app_version": "1.2.3", "refund_status": null, "refund_amount": null,
            "refunded_at": null, "refund_reason": null}),
        "of the receipt only the hash"
    );
    assert_eq!(row["entity_type"], "payment");
    let refund =
        json!({"event_id": "p-2", "refund_id": "r-1", "refund_amount": "4.00", "refund_reason": "asked for"});
    assert_eq!(ask(&engine, "POST", "users/u-1/payments/payment-abc-123/refunds", refund).await.status, 200);
    let data = super::row(&engine, "PAYMENT#2026-02-28#payment-abc-123").await.unwrap()["data"].clone();
    assert_eq!(
        (data["refund_status"].as_str(), &data["refund_amount"], data["refund_reason"].as_str()),
        (Some("partially_refunded"), &json!(4), Some("asked for"))
    );
}

async fn get_users_payment_history<E: Engine>(engine: E) {
    ada(&engine).await;
    for n in 1..=25 {
        let body = json!({"event_id": format!("p-{n}"), "amount": format!("{n}.50"),
            "occurred_at": format!("2026-02-{n:02}T10:00:00Z")});
        assert_eq!(ask(&engine, "POST", "users/u-1/payments", body).await.status, 200);
    }
    let ids = |response: &Response| -> Vec<String> {
        response.body["payments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|payment| payment["payment_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let latest = ask(&engine, "GET", "users/u-1/payments", Value::Null).await;
    assert_eq!(
        (ids(&latest).len(), latest.body["payments"][0]["amount"].clone()),
        (20, json!(25.5)),
        "latest first"
    );
    assert_eq!(ids(&ask(&engine, "GET", "users/u-1/payments?limit=2", Value::Null).await), ["p-25", "p-24"]);
    let wrong = ask(&engine, "GET", "users/u-1/payments?limit=0", Value::Null).await;
    assert_eq!(
        (wrong.status, wrong.body["error"]["message"].as_str()),
        (422, Some("limit: \"0\" is not a whole number from 1 to 1000"))
    );
}

async fn get_users_current_subscription_embedded_in_user_profile<E: Engine>(engine: E) {
    let data = ada(&engine).await;
    let asked = ask(&engine, "GET", "users/u-1/subscription", Value::Null).await;
    assert_eq!((asked.status, asked.body), (200, data["subscription"].clone()));
    assert_eq!(ask(&engine, "GET", "users/u-9/subscription", Value::Null).await.status, 404);
}

async fn update_subscription_embedded_in_user_profile<E: Engine>(engine: E) {
    ada(&engine).await;
    let premium = |event: &str, status: &str| {
        json!({"event_id": event, "subscription_id": "sub_premium_456", "subscription_type": "premium",
            "subscription_status": status, "provider": "apple",
            "external_subscription_id": "apple-1", "start_date": NOW, "end_date": "2026-04-01T00:00:00Z"})
    };
    let updated =
        ask_at(&engine, "2026-03-02T00:00:00Z", "POST", "users/u-1/subscription", premium("s-1", "active"))
            .await;
    let subscription = &updated.body["profile"]["subscription"];
    assert_eq!(
        (subscription["subscription_type"].as_str(), subscription["external_subscription_id"].as_str()),
        (Some("premium"), Some("apple-1"))
    );
    assert_eq!(subscription["usage_current_period"]["documents_processed"], json!(0), "what is used stays");
    let ended = ask_at(
        &engine,
        "2026-03-03T00:00:00Z",
        "POST",
        "users/u-1/subscription",
        premium("s-2", "cancelled"),
    )
    .await;
    assert_eq!(ended.body["profile"]["subscription"]["subscription_type"], "free");
}

async fn check_usage_limits_embedded_in_subscription_data<E: Engine>(engine: E) {
    let check = |time: &'static str| {
        ask_at(&engine, time, "GET", "users/u-1/usage?feature=document_processing", Value::Null)
    };
    assert_eq!(check(NOW).await.body, json!({"allowed": false, "reason": "No subscription found"}));
    ada(&engine).await;
    assert_eq!(
        check(NOW).await.body,
        json!({"allowed": true, "usage": 0, "limit": 3, "period_end": "2026-03-31T00:00:00Z"})
    );
    let count = |key: String| ask(&engine, "POST", "users/u-1/usage", json!({"event_id": key}));
    for n in 1..=3 {
        let counted = count(format!("d-{n}")).await;
        assert_eq!(
            (counted.status, &counted.body["usage"], counted.body["outcome"].as_str()),
            (200, &json!(n), Some("applied"))
        );
    }
    let full = count("d-4".to_owned()).await;
    assert_eq!(
        (full.status, full.retry_after, full.body["error"]["code"].as_str()),
        (429, Some(30 * 86_400), Some("usage_limit"))
    );
    assert_eq!(
        (&full.body["usage"], &full.body["limit"], full.body["period_end"].as_str()),
        (&json!(3), &json!(3), Some("2026-03-31T00:00:00Z"))
    );
    assert_eq!(
        count("d-1".to_owned()).await.body["outcome"],
        "known",
        "the same document is not counted again, nor refused"
    );
    assert_eq!(check(NOW).await.body["allowed"], json!(false));
    assert_eq!(
        ask(&engine, "GET", "users/u-1/usage?feature=chat", Value::Null).await.body,
        json!({"allowed": true})
    );
    assert_eq!(check("2026-03-31T00:00:00Z").await.body["usage"], json!(0), "the period is over");

    let premium = json!({"event_id": "s-1", "subscription_id": "a", "subscription_type": "premium",
        "subscription_status": "active", "provider": "apple",
        "start_date": NOW, "end_date": "2026-03-20T00:00:00Z"});
    ask(&engine, "POST", "users/u-1/subscription", premium.clone()).await;
    assert_eq!(check(NOW).await.body, json!({"allowed": true}), "unlimited");
    assert_eq!(
        check("2026-03-27T00:00:00Z").await.body["allowed"],
        json!(false),
        "after the days of grace it is the free tier again"
    );
    let mut other = premium;
    (other["event_id"], other["subscription_type"]) = ("s-2".into(), "gold".into());
    ask_at(&engine, "2026-03-02T00:00:00Z", "POST", "users/u-1/subscription", other).await;
    assert_eq!(
        check("2026-03-02T00:00:00Z").await.body,
        json!({"allowed": false, "reason": "Invalid subscription tier"})
    );
}

async fn lambda_endpoint_to_expose_tiers<E: Engine>(engine: E) {
    let tiers = ask(&engine, "GET", "subscription-tiers", Value::Null).await;
    assert_eq!(tiers.status, 200);
    let premium = json!({"tier_name": "Premium", "medical_reports": true, "max_documents_per_month": null,
        "priority_processing": true, "advanced_analytics": true,
        "export_capabilities": true, "chat_interactions_per_day": null, "storage_gb": 10,
        "retention_days": 365, "support_level": "priority",
        "monthly_price_usd": 9.99, "yearly_price_usd": 99.99,
        "apple_product_id": "com.serenya.premium.monthly", "google_product_id": "serenya_premium_monthly"});
    assert_eq!(tiers.body["premium"], premium);
    assert_eq!(
        Settings::default().tiers_json()["free"]["max_documents_per_month"],
        json!(5),
        "unless a deployment says otherwise"
    );
    assert_eq!(ask(&engine, "POST", "subscription-tiers", Value::Null).await.allow.as_deref(), Some("GET"));
}

async fn lambda_endpoint_to_expose_chat_options<E: Engine>(engine: E) {
    let usual = ask(&engine, "POST", "chat-options", Value::Null).await.body;
    assert_eq!(usual, Settings::default().chat_options);
    let asked = json!({"documentType": "result", "availableMetrics": ["HDL  Cholesterol", "TSH"]});
    let options = ask(&engine, "POST", "chat-options", asked).await.body;
    let list = options["result"]["options"].as_array().unwrap();
    assert_eq!((list.len(), &list[..3]), (5, &usual["result"]["options"].as_array().unwrap()[..]));
    assert_eq!(
        list[3],
        json!({"id": "metric_hdl_cholesterol", "text": "Explain HDL  Cholesterol", "icon": "beaker",
            "metric": "HDL  Cholesterol",
            "prompt": "Explain what HDL  Cholesterol measures, why it's important, and what my specific \
                value means."})
    );
    assert_eq!(
        ask(&engine, "POST", "chat-options", Value::Null).await.body,
        usual,
        "what one document has is not kept for the next"
    );
    let report =
        ask(&engine, "POST", "chat-options", json!({"documentType": "report", "availableMetrics": ["TSH"]}))
            .await;
    assert_eq!(report.body, usual);
    let wrong =
        ask(&engine, "POST", "chat-options", json!({"documentType": "result", "availableMetrics": [1]}))
            .await;
    assert_eq!(
        (wrong.status, wrong.body["error"]["message"].as_str()),
        (422, Some("availableMetrics: is not a list of texts"))
    );
}

async fn system_wide_configuration<E: Engine>(engine: E) {
    let save = |event: &str, version: &str, size: u32| {
        json!({"event_id": event, "version": version, "features": {"biometric_auth_enabled": true},
            "limits": {"max_file_size_mb": size, "ratio": 1.50},
            "services": {"anthropic_api_timeout_ms": 30000}})
    };
    for (event, version, size) in [("c-1", "v1", 10), ("c-2", "v10", 30), ("c-3", "v9", 20)] {
        assert_eq!(ask(&engine, "POST", "config/app_settings", save(event, version, size)).await.status, 200);
    }
    let rows = rows(&engine).await;
    let row = rows[&("SYSTEM#CONFIG".to_owned(), "APP_SETTINGS#v1".to_owned())].to_json();
    assert_eq!(
        (row["entity_type"].as_str(), row["data"]["config_key"].as_str()),
        (Some("system_config"), Some("app_settings"))
    );
    assert_eq!(row["data"]["limits"], json!({"max_file_size_mb": 10, "ratio": 1.5}));
    let size = |response: Response| response.body["limits"]["max_file_size_mb"].clone();
    assert_eq!(size(ask(&engine, "GET", "config/app_settings?version=v1", Value::Null).await), json!(10));
    assert_eq!(
        size(ask(&engine, "GET", "config/app_settings", Value::Null).await),
        json!(30),
        "the highest version"
    );
    assert_eq!(ask(&engine, "GET", "config/other", Value::Null).await.status, 404);
}
