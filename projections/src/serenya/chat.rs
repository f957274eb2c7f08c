//! Chat prompts for a document: fixed options, and one for each metric of a result.

use serde_json::{Value as Json, json};

/// The document type that gets an option per metric.
const RESULT: &str = "result";

/// The options for a document; a result gets one more for each of its metrics. Works on a copy: the metrics
/// of one document must not leak into the options of others.
#[must_use]
pub fn for_document(options: &Json, document_type: Option<&str>, metrics: &[String]) -> Json {
    let mut options = options.clone();
    if document_type == Some(RESULT) {
        let prompt = options["metric"]["base_prompts"]["explanation"].as_str().unwrap_or_default().to_owned();
        // Options configured by a deployment may lack this list.
        if let Some(list) =
            options.get_mut(RESULT).and_then(|result| result.get_mut("options")?.as_array_mut())
        {
            list.extend(metrics.iter().map(|metric| about(metric, &prompt)));
        }
    }
    options
}

fn about(metric: &str, prompt: &str) -> Json {
    json!({
        "id": format!("metric_{}", joined(&metric.to_lowercase())), "text": format!("Explain {metric}"),
        "prompt": prompt.replacen("[METRIC]", metric, 1), "icon": "beaker", "metric": metric,
    })
}

/// Replaces each run of whitespace, as JavaScript defines it, with one underscore.
fn joined(text: &str) -> String {
    let blank = |c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}';
    let mut out = String::with_capacity(text.len());
    let mut was_blank = false;
    for c in text.chars() {
        match (blank(c), was_blank) {
            (true, true) => {}
            (true, false) => out.push('_'),
            (false, _) => out.push(c),
        }
        was_blank = blank(c);
    }
    out
}

/// The default options.
pub(super) fn options() -> Json {
    json!({
        "result": {
            "category": "Lab Results",
            "options": [
                {
                    "id": "explain_simple",
                    "text": "Can you explain this in simpler terms?",
                    "prompt": "Explain these lab results in simple, easy-to-understand language. Avoid \
                        medical jargon and focus on what these numbers mean for my health.",
                    "icon": "lightbulb",
                },
                {
                    "id": "health_impact",
                    "text": "What do these numbers mean for my health?",
                    "prompt": "Interpret these health metrics and explain their significance. What should I \
                        be concerned about or encouraged by?",
                    "icon": "heart",
                },
                {
                    "id": "trends_analysis",
                    "text": "How have my results changed over time?",
                    "prompt": "Analyze trends in my health data over time. What improvements or concerns \
                        should I be aware of?",
                    "icon": "trending-up",
                    "requires_history": true,
                },
            ],
        },
        "report": {
            "category": "Medical Reports",
            "options": [
                {
                    "id": "key_findings",
                    "text": "Can you summarize the key findings?",
                    "prompt": "Summarize the most important findings from this medical report. What are the \
                        main takeaways I should focus on?",
                    "icon": "document-text",
                },
                {
                    "id": "doctor_prep",
                    "text": "What should I ask my doctor?",
                    "prompt": "Based on this report, generate intelligent questions I should ask my doctor \
                        during my next appointment.",
                    "icon": "chat-bubble-left-right",
                },
                {
                    "id": "follow_up",
                    "text": "What follow-up actions should I take?",
                    "prompt": "What follow-up actions, lifestyle changes, or next steps should I consider \
                        based on this medical report?",
                    "icon": "clipboard-document-check",
                },
            ],
        },
        "metric": {
            "category": "Specific Metrics",
            "dynamic": true,
            "base_prompts": {
                "explanation": "Explain what [METRIC] measures, why it's important, and what my specific \
                    value means.",
                "ranges": "What are the normal ranges for [METRIC] and where do I fall within those ranges?",
                "improvement": "How can I improve my [METRIC] levels through lifestyle changes?",
            },
        },
    })
}
