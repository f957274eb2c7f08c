//! Checks the wording and the width of tracked text: retired words, and lines past 110 columns.

/// Lines of code and prose end here.
const WIDTH: usize = 110;

/// A run of characters without a space that is longer than this has no place to break: a URL, an ARN, JSON.
const UNBREAKABLE: usize = 55;

/// Retired words, and what to write instead. Matched as whole words, also inside `snake_case` and
/// `CamelCase` names.
#[rustfmt::skip]
const RETIRED: &[(&str, &str)] = &[
    ("told", "published, reported, recorded, output: what the value is"),
    ("tell", "publish, report, deliver"),
    ("tells", "publishes, reports, has"),
    ("telling", "publishing, reporting"),
    ("heard", "received, captured"),
    ("hear", "receive, wait for"),
    ("hears", "receives, waits for"),
    ("nobody", "no user, unknown user, no caller"),
    ("somebody", "another writer, a user"),
    ("whoever", "the next reader, redelivery or sweeper; every caller"),
    ("whose", "owner, or a sentence with `of` or `with`"),
    ("door", "webhook, endpoint, authentication"),
    ("doors", "queues, endpoints"),
    ("knock", "request, event"),
    ("knocks", "calls, delivers"),
    ("beat", "timeline entry, or heartbeat in one word"),
    ("beats", "timeline entries, or heartbeats in one word"),
    ("patience", "timeout"),
    ("pile", "partition batch"),
    ("piles", "partition batches"),
    ("stamp", "idempotency token, timestamp, marker"),
    ("stamps", "idempotency tokens, timestamps"),
    ("wish", "collection request"),
    ("wishes", "collection requests"),
    ("happening", "event kind"),
    ("debts", "follow-ups, or amounts due"),
    ("owes", "has an amount due, needs a follow-up"),
];

/// Retired phrases, as they stand in a line of prose.
const PHRASES: &[(&str, &str)] = &[
    ("made again", "rebuilt"),
    ("put right", "repaired"),
    ("goes ahead", "has priority"),
    ("trying again, nothing", "consumer stalled, retrying"),
    ("seed 00", "the name of the system: billing-activity, gg_core, usage, figureforge, serenya"),
];

/// Names that are stored, or on the wire, or in a file of the user: they keep their spelling.
const KEPT: &[(&str, &str)] = &[
    ("cli/src/commands/import.rs", "made_again_from"),
    ("cli/src/commands/replay.rs", "put_right"),
    ("events/src/attributes.rs", "\"stamp\""),
    ("events/src/attributes.rs", "\"toldAt\""),
    ("events/src/billing/event_codec.rs", "\"stamp\""),
    ("projections/src/serenya/subscription.rs", "rename = \"told\""),
    ("processors/src/aws/triggers/eventbridge.rs", "published: told"),
    ("processors/src/collections/gateway/sandbox.rs", "\"told\""),
    ("processors/src/collections/gateway/sandbox/refunds.rs", "\"told\""),
    ("processors/src/collections/gateway/sandbox/rows.rs", "\"told\""),
    ("processors/src/collections/notifier.rs", "\"told\""),
    ("processors/src/aws/triggers/eventbridge.rs", "due_soon, told"),
    ("store/src/embedded/codec.rs", "\"stamp\""),
    ("tests/src/judge.rs", "\"stamp\""),
    ("tests/tests/api/records.rs", "\"stamp\""),
    ("tests/tests/aws/functions.rs", "\"told\""),
    ("tests/tests/aws/permissions/collecting.rs", "\"told\""),
    ("tests/tests/operators/audit.rs", "\"stamp\""),
    ("tests/tests/operators/wrong_decisions.rs", "\"stamp\""),
    ("tests/tests/program/notify.rs", "\"told\""),
    ("tests/tests/year/books.rs", "\"told\""),
    ("xtask/src/python.rs", "requirements.stamp"),
];

/// Files that are not prose of ours: this list itself, recorded test cases, tables of cases in columns.
const EXEMPT: &[&str] = &["xtask/src/prose.rs", "events/tests/state_table.rs"];

/// Everything wrong with a file's wording and width, as `path:line: what`.
pub fn problems(path: &str, text: &str) -> Vec<String> {
    let is_prose = [".rs", ".md", ".js", ".mjs", ".css"].iter().any(|end| path.ends_with(end));
    if !is_prose || EXEMPT.contains(&path) {
        return Vec::new();
    }
    let has_width = path.ends_with(".rs") || path.ends_with(".md");
    let mut found = Vec::new();
    let mut is_verbatim = false;
    for (number, line) in text.lines().enumerate() {
        let at = |what: String| format!("{path}:{}: {what}", number + 1);
        found.extend(
            retired(&without_kept(path, line))
                .into_iter()
                .map(|(word, instead)| at(format!("`{word}` is retired: write {instead}"))),
        );
        if path.ends_with(".md") && line.trim_start().starts_with("```") {
            is_verbatim = !is_verbatim;
        }
        let is_table = path.ends_with(".md") && line.trim_start().starts_with('|');
        let columns = line.chars().count();
        if has_width && columns > WIDTH && !is_verbatim && !is_table && is_breakable(line) {
            found.push(at(format!("{columns} columns, the most is {WIDTH}")));
        }
    }
    found
}

fn without_kept(path: &str, line: &str) -> String {
    let kept = KEPT.iter().filter(|(file, _)| *file == path);
    kept.fold(line.to_owned(), |line, (_, name)| line.replace(name, ""))
}

fn is_breakable(line: &str) -> bool {
    line.split_whitespace().all(|run| run.chars().count() <= UNBREAKABLE)
}

/// The retired words and phrases of a line, each once.
fn retired(line: &str) -> Vec<(&'static str, &'static str)> {
    let words = words(line);
    let spaced = line.to_lowercase().replace('_', " ");
    let mut found: Vec<_> =
        RETIRED.iter().filter(|(word, _)| words.iter().any(|have| have == word)).copied().collect();
    found.extend(PHRASES.iter().filter(|(phrase, _)| spaced.contains(phrase)).copied());
    found
}

/// The words of a line in lower case; names are split at underscores and before capitals.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in line.chars() {
        if !c.is_ascii_alphabetic() || (c.is_ascii_uppercase() && before.is_ascii_lowercase()) {
            words.push(String::new());
        }
        if c.is_ascii_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, line: &str) -> Vec<String> {
        problems(path, &format!("first\n{line}\n"))
    }

    #[test]
    fn a_retired_word_is_found_in_prose_and_in_names_with_file_line_and_substitute() {
        for line in
            ["// Others are told.", "let told = 1;", "fn others_are_told() {", "struct HasTold;", "TOLD_AT"]
        {
            let expected = "cli/src/a.rs:2: `told` is retired: write \
                            published, reported, recorded, output: what the value is";
            assert_eq!(one("cli/src/a.rs", line), [expected], "{line}");
        }
        assert_eq!(
            one("docs/a.md", "It is made again."),
            ["docs/a.md:2: `made again` is retired: write rebuilt"]
        );
    }

    #[test]
    fn words_that_only_contain_a_retired_one_are_fine() {
        for line in ["heartbeat_interval", "HEARTBEAT", "timestamp", "fromTimestamp", "indoors", "compiled"] {
            assert_eq!(one("cli/src/a.rs", line), Vec::<String>::new(), "{line}");
        }
    }

    #[test]
    fn a_stored_name_is_kept_in_its_own_file_only() {
        let line = "    TOKEN = \"stamp\";";
        assert_eq!(one("events/src/attributes.rs", line), Vec::<String>::new());
        assert_eq!(one("events/src/item.rs", line).len(), 1);
    }

    #[test]
    fn a_wide_line_is_named_and_tables_verbatim_text_and_addresses_are_not() {
        let wide = "word ".repeat(23);
        let wide = wide.trim_end();
        assert_eq!(wide.len(), 114);
        assert_eq!(one("docs/a.md", wide), ["docs/a.md:2: 114 columns, the most is 110"]);
        assert_eq!(one("cli/src/a.rs", wide), ["cli/src/a.rs:2: 114 columns, the most is 110"]);
        assert_eq!(one("cli/src/a.rs", &wide[..110]), Vec::<String>::new());
        for line in [format!("| {wide} |"), format!("```\n{wide}\n```")] {
            assert_eq!(one("docs/a.md", &line), Vec::<String>::new());
        }
        let address = format!("// see https://example.com/{}", "a".repeat(100));
        assert_eq!(one("cli/src/a.rs", &address), Vec::<String>::new());
    }

    #[test]
    fn stored_names_occur() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (file, name) in KEPT {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            assert!(text.contains(name), "{file} has no {name}: drop it from the list");
        }
    }
}
