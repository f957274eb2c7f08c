//! `dues parked`: what could not be processed, and why.

use serde_json::json;
use std::path::Path;

use crate::args::Parked;
use crate::output::{self, Error};

pub(crate) async fn run(data: &Path, args: &Parked) -> Result<(), Error> {
    let store = output::open_existing(data)?;
    let parked = store.parked().await?;
    if args.json {
        let parked: Vec<_> = parked
            .iter()
            .map(|p| {
                json!({
                    "parked_id": p.id, "stream": p.stream, "code": p.code, "reason": p.reason, "event_id": p.event_id, "user_id": p.user_id,
                    "sequence": p.sequence, "parked_at": p.parked_at.to_rfc3339(), "bytes": p.body.len(), "record": String::from_utf8_lossy(&p.body),
                })
            })
            .collect();
        return output::json(&json!({ "parked": parked }));
    }
    if parked.is_empty() {
        return output::text("nothing is parked");
    }
    let mut table = output::table(["id", "stream", "where", "event", "user", "reason"]);
    for p in &parked {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
        table.add_row([p.id.clone(), p.stream.clone(), p.sequence.clone(), or_dash(&p.event_id), or_dash(&p.user_id), p.reason.clone()]);
    }
    output::text(&table.to_string())?;
    output::text(&format!("{} parked", output::grouped(parked.len() as u64)))
}
