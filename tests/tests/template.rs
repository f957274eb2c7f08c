//! The template says what Rust says: tables, roles, sources. It needs no deployment: the SAM translator and the linter look at it here.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use dues_tests::template::renewed;
use std::path::Path;

fn path() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/template.yaml")
}

#[test]
fn what_is_made_from_rust_is_up_to_date() {
    let template = std::fs::read_to_string(path()).unwrap();
    let renewed = renewed(&template);
    if std::env::var_os("DUES_BLESS").is_some() {
        std::fs::write(path(), &renewed).unwrap();
        return;
    }
    let differs = template.lines().zip(renewed.lines()).find(|(is, should)| is != should);
    assert!(
        template == renewed,
        "DUES_BLESS=1 cargo nextest run -p dues-tests --test template makes it so; the first difference: {differs:?}"
    );
}
