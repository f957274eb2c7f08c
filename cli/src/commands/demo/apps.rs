//! Application events of the simulated members: counted actions, images, documents.

use chrono::TimeDelta;
use dues_events::{GoTime, Item, Time};
use dues_store::usage::count::ActionRequest;
use fastrand::Rng;
use serde_json::{Value, json};

const TAGS: [&str; 6] =
    ["pose:standing", "pose:sitting", "style:comic", "style:oil", "mood:calm", "subject:cat"];
/// Features and their action types.
const FEATURES: [(&str, &str); 3] = [
    ("simulations", "simulation_run"),
    ("ai_recommendations", "recommendation_asked"),
    ("strategies", "strategy_saved"),
];

pub(super) struct Apps {
    members: u32,
    rng: Rng,
    events: u64,
}

impl Apps {
    pub(super) fn new(members: u32, seed: u64) -> Self {
        Self { members, rng: Rng::with_seed(seed ^ 0xa995), events: 0 }
    }

    fn member(&mut self) -> String {
        format!("member-{:06}", self.rng.u32(..self.members))
    }

    /// A day's actions, by one in a hundred members; some exceed their plan's limit.
    pub(super) fn actions(&mut self) -> Vec<ActionRequest> {
        let mut actions = Vec::new();
        for _ in 0..self.members.div_ceil(100) {
            let user = self.member();
            let (feature, kind) = self.rng.choice(FEATURES).unwrap_or(FEATURES[0]);
            for _ in 0..self.rng.u8(1..5) {
                self.events += 1;
                let key = Some(format!("act-{}", self.events).into());
                actions.push(ActionRequest {
                    user: user.as_str().into(),
                    feature: feature.into(),
                    kind: kind.into(),
                    details: Item::new(),
                    key,
                });
            }
        }
        actions
    }

    /// Image events: saved, tagged, reported, deleted.
    pub(super) fn images(&mut self, day: Time) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..self.members.div_ceil(200) {
            let (user, image) =
                (self.member(), format!("00000000-0000-4000-8000-{:012}", self.rng.u32(..self.members * 4)));
            let tags: Vec<&str> = (0..self.rng.usize(1..4)).filter_map(|_| self.rng.choice(TAGS)).collect();
            let saved = json!({"image_id": image, "user_id": user,
                "url": format!("https://cdn.example.com/{image}.jpg"), "tags": tags,
                "prompt_json": {"prompt": "a knight"}, "provider": "fal.ai",
                "provider_model_id": "fal/sdxl-foo", "cost_cents": 12, "public": true,
                "private_gallery_ids": [], "created_at": day.timestamp()});
            events.push(self.event("figureforge.image.saved", day, saved));
            match self.rng.u8(..12) {
                0 => events.push(self.event("figureforge.image.deleted", day, json!({"image_id": image}))),
                1 => events.push(self.event(
                    "figureforge.image.tagged",
                    day,
                    json!({"image_id": image, "tags": ["style:ink"]}),
                )),
                2 => {
                    let report =
                        json!({"image_id": image, "report_id": "r-1", "reporter_id": user, "reason": "spam"});
                    events.push(self.event("figureforge.report.filed", day, report));
                }
                _ => {}
            }
        }
        events
    }

    /// S3 events of documents that are uploaded and processed.
    pub(super) fn documents(&mut self, day: Time) -> Vec<String> {
        let mut events = Vec::new();
        for _ in 0..self.members.div_ceil(400) {
            let user = self.member();
            let file = format!("scan-{}.pdf", day.format("%Y%m%d"));
            let done = self.rng.u8(..5) > 0;
            for path in [
                format!("uploads/{file}"),
                format!("processing/{file}.processing"),
                format!("results/{file}.json"),
            ]
            .iter()
            .take(if done { 3 } else { 2 })
            {
                self.events += 1;
                let object = json!({"key": format!("users/{user}/documents/{path}"),
                    "sequencer": format!("{:016X}", self.events), "size": 1});
                events.push(
                    json!({"id": format!("s3-{}", self.events), "source": "aws.s3",
                        "detail-type": "Object Created", "time": text(day),
                        "detail": {"bucket": {"name": "documents"}, "object": object}})
                    .to_string(),
                );
            }
        }
        events
    }

    fn event(&mut self, kind: &str, day: Time, mut fields: Value) -> String {
        self.events += 1;
        fields["event_id"] = format!("app-{}", self.events).into();
        fields["type"] = kind.into();
        fields["occurred_at"] =
            text(day + TimeDelta::seconds(i64::try_from(self.events % 3600).unwrap_or_default())).into();
        fields.to_string()
    }
}

fn text(time: Time) -> String {
    GoTime::trimmed(time).text()
}
