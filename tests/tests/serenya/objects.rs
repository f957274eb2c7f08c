//! Jobs, driven by S3's object events: shuffled, repeated, through EventBridge and bucket notifications.

use super::*;
use dues_processors::runtime::redrive::redrive;
use dues_processors::serenya::s3_events::{S3Event, s3_events};
use fastrand::Rng;

dues_tests::on_engines! {
    check_if_processing_result_exists_job_completed,
    check_if_original_upload_exists_job_pending_or_processing,
    list_user_jobs_sorted_by_upload_time_newest_first,
    create_processing_marker_file_when_job_starts,
    remove_processing_marker_and_create_result_when_job_completes,
    a_job_that_failed_says_why,
    shuffled_and_repeated_events_end_right,
    what_cannot_be_read_is_parked_and_the_rest_is_not_ours,
}

/// As EventBridge delivers it: keys unencoded.
fn bridge(change: &str, key: &str, sequencer: &str, time: &str) -> Value {
    json!({"version": "0", "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": format!("Object {change}"), "source": "aws.s3", "account": "111122223333",
        "time": time, "region": "us-east-1", "resources": ["arn:aws:s3:::serenya-temp-files-dev"],
        "detail": {"version": "0", "bucket": {"name": "serenya-temp-files-dev"},
            "object": {"key": key, "size": 5, "sequencer": sequencer}, "reason": "PutObject"}})
}

/// As a bucket notification delivers it: keys form-encoded.
fn notification(name: &str, key: &str, sequencer: &str, time: &str) -> Value {
    json!({"Records": [{"eventVersion": "2.1", "eventSource": "aws:s3", "eventTime": time, "eventName": name,
        "s3": {"bucket": {"name": "serenya-temp-files-dev"},
            "object": {"key": key, "sequencer": sequencer}}}]})
}

fn upload(file: &str) -> String {
    format!("users/u-1/documents/uploads/{file}")
}

fn processing(file: &str) -> String {
    format!("users/u-1/documents/processing/{file}.processing")
}

fn result(file: &str) -> String {
    format!("users/u-1/documents/results/{file}.json")
}

async fn send<E: Engine>(engine: &E, event: Value) -> &'static str {
    s3_events(&context_at(engine, NOW), S3Event(event)).await.unwrap().acted
}

async fn job<E: Engine>(engine: &E, file: &str) -> Value {
    ask(
        engine,
        "GET",
        &format!("users/u-1/jobs/{}", file.replace(' ', "%20").replace('/', "%2F")),
        Value::Null,
    )
    .await
    .body
}

async fn check_if_processing_result_exists_job_completed<E: Engine>(engine: E) {
    send(&engine, bridge("Created", &upload("a.pdf"), "01", "2026-02-01T00:00:00Z")).await;
    send(&engine, bridge("Created", &result("a.pdf"), "02", "2026-02-01T00:09:00Z")).await;
    let completed = json!({"status": "completed", "file_name": "a.pdf", "result_location": result("a.pdf"),
        "completed_at": "2026-02-01T00:09:00Z", "uploaded_at": "2026-02-01T00:00:00Z"});
    assert_eq!(job(&engine, "a.pdf").await, completed);
    assert_eq!(row(&engine, "JOB#a.pdf").await.unwrap()["entity_type"], "job");
}

async fn check_if_original_upload_exists_job_pending_or_processing<E: Engine>(engine: E) {
    let none = ask(&engine, "GET", "users/u-1/jobs/blood%20test.v2.pdf", Value::Null).await;
    assert_eq!(
        (none.status, none.body),
        (404, json!({"status": "not_found", "file_name": "blood test.v2.pdf"}))
    );
    send(&engine, bridge("Created", &upload("blood test.v2.pdf"), "01", "2026-02-01T00:00:00Z")).await;
    assert_eq!(
        job(&engine, "blood test.v2.pdf").await,
        json!({"status": "pending", "file_name": "blood test.v2.pdf", "uploaded_at": "2026-02-01T00:00:00Z"})
    );
    send(&engine, bridge("Deleted", &upload("blood test.v2.pdf"), "02", "2026-02-01T01:00:00Z")).await;
    assert_eq!(job(&engine, "blood test.v2.pdf").await["status"], "not_found");
    assert_eq!(row(&engine, "JOB#blood test.v2.pdf").await, None);
}

async fn create_processing_marker_file_when_job_starts<E: Engine>(engine: E) {
    send(&engine, bridge("Created", &upload("2026/röntgen.pdf"), "01", "2026-02-01T00:00:00Z")).await;
    send(&engine, bridge("Created", &processing("2026/röntgen.pdf"), "01", "2026-02-01T00:01:00Z")).await;
    let started = json!({"status": "processing", "file_name": "2026/röntgen.pdf",
        "uploaded_at": "2026-02-01T00:00:00Z", "processing_started_at": "2026-02-01T00:01:00Z"});
    assert_eq!(job(&engine, "2026/röntgen.pdf").await, started);
}

async fn remove_processing_marker_and_create_result_when_job_completes<E: Engine>(engine: E) {
    // A bucket notification; a space is a plus there.
    let key = |key: String| key.replace(' ', "+").replace('ö', "%C3%B6");
    for (name, object, sequencer, time) in [
        ("ObjectCreated:Put", upload("r ö.pdf"), "A", "2026-02-01T00:00:00.000Z"),
        ("ObjectCreated:Put", processing("r ö.pdf"), "B", "2026-02-01T00:01:00.000Z"),
        ("ObjectCreated:Put", result("r ö.pdf"), "C", "2026-02-01T00:02:00.500Z"),
        ("ObjectRemoved:Delete", processing("r ö.pdf"), "D", "2026-02-01T00:02:01.000Z"),
    ] {
        assert_eq!(send(&engine, notification(name, &key(object), sequencer, time)).await, "applied");
    }
    let job = job(&engine, "r ö.pdf").await;
    assert_eq!(
        (job["status"].as_str(), job["completed_at"].as_str(), job.get("processing_started_at")),
        (Some("completed"), Some("2026-02-01T00:02:00.5Z"), None)
    );
    assert_eq!(
        send(&engine, bridge("Created", &result("r ö.pdf"), "000C", "2026-02-01T00:02:00Z")).await,
        "duplicate",
        "the other endpoint has the same answer"
    );
}

async fn list_user_jobs_sorted_by_upload_time_newest_first<E: Engine>(engine: E) {
    for (file, time) in [
        ("b.pdf", "2026-02-01T00:00:00.5Z"),
        ("a.pdf", "2026-02-03T00:00:00Z"),
        ("c.pdf", "2026-02-01T00:00:00Z"),
    ] {
        send(&engine, bridge("Created", &upload(file), "01", time)).await;
    }
    send(&engine, bridge("Created", &result("b.pdf"), "01", "2026-02-04T00:00:00Z")).await;
    let files = async |path: &str| -> Vec<String> {
        let list = ask(&engine, "GET", path, Value::Null).await;
        list.body["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|job| job["file_name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(files("users/u-1/jobs").await, ["a.pdf", "b.pdf", "c.pdf"]);
    assert_eq!(files("users/u-1/jobs?limit=1").await, ["a.pdf"]);
    assert_eq!(files("users/u-2/jobs").await, Vec::<String>::new());
}

async fn a_job_that_failed_says_why<E: Engine>(engine: E) {
    send(&engine, bridge("Created", &upload("a.pdf"), "01", "2026-02-01T00:00:00Z")).await;
    send(&engine, bridge("Created", &processing("a.pdf"), "02", "2026-02-01T00:01:00Z")).await;
    let failed = json!({"user_id": "u-1", "file_name": "a.pdf", "error_message": "the scan cannot be read"});
    assert_eq!(
        deliver(&engine, "f-1", "document.failed", "2026-02-01T00:02:00Z", failed).await,
        Outcome::Applied
    );
    let failed_job = job(&engine, "a.pdf").await;
    assert_eq!(
        (failed_job["status"].as_str(), failed_job["error_message"].as_str()),
        (Some("failed"), Some("the scan cannot be read"))
    );
    send(&engine, bridge("Created", &processing("a.pdf"), "03", "2026-02-01T00:03:00Z")).await;
    assert_eq!(job(&engine, "a.pdf").await["status"], "processing", "it is tried again");
    send(&engine, bridge("Created", "users/u-1/documents/failed/a.pdf.failed", "01", "2026-02-01T00:04:00Z"))
        .await;
    assert_eq!(job(&engine, "a.pdf").await["status"], "failed");
}

async fn shuffled_and_repeated_events_end_right<E: Engine>(engine: E) {
    let mut events = Vec::new();
    for n in 0..6 {
        let file = format!("f{n}.pdf");
        let minute = |m: u32| format!("2026-02-01T00:{m:02}:00Z");
        // Longer sequencers are greater, whatever their first digit.
        events.push(bridge("Created", &upload(&file), "FF", &minute(0)));
        events.push(bridge("Created", &processing(&file), "0FE", &minute(1)));
        events.push(bridge("Deleted", &processing(&file), "1000", &minute(3)));
        events.push(bridge("Created", &result(&file), "A0", &minute(2)));
        if n % 2 == 0 {
            events.push(bridge("Deleted", &result(&file), "A1", &minute(4)));
        }
    }
    let mut random = Rng::with_seed(4);
    for _ in 0..3 {
        let mut order: Vec<usize> =
            (0..events.len()).chain((0..20).map(|_| random.usize(..events.len()))).collect();
        random.shuffle(&mut order);
        for n in order {
            send(&engine, events[n].clone()).await;
        }
        for n in 0..6 {
            let expected = if n % 2 == 0 { "pending" } else { "completed" };
            assert_eq!(job(&engine, &format!("f{n}.pdf")).await["status"], expected);
        }
    }
}

async fn what_cannot_be_read_is_parked_and_the_rest_is_not_ours<E: Engine>(engine: E) {
    let whole = bridge("Created", &upload("a.pdf"), "01", "2026-02-01T00:00:00Z");
    for foreign in [
        bridge("Restore Completed", &upload("a.pdf"), "01", NOW),
        bridge("Created", "logs/2026", "xyz", NOW),
        json!({"source": "aws.ec2", "detail": {}}),
    ] {
        assert_eq!(send(&engine, foreign).await, "skipped");
    }
    let mut broken = whole.clone();
    broken["detail"]["object"]["sequencer"] = Value::Null;
    assert_eq!(send(&engine, broken).await, "parked");
    let parked = at(&engine, NOW).parked().await.unwrap();
    assert_eq!(
        (parked.len(), parked[0].stream.as_str(), parked[0].reason.as_str()),
        (1, "s3-events", "detail.object.sequencer: is missing or no text")
    );
    let again = redrive(&context_at(&engine, NOW), &parked[0]).await.unwrap();
    assert_eq!(again, Outcome::Parked, "it still cannot be read");
    assert_eq!(row(&engine, "JOB#a.pdf").await, None);
}
