//! The parts of `infra/template.yaml` that say again what Rust has declared: tables, roles, and an alarm for each of them. They are made here, and
//! stand in the template between two marks; a test compares them, and `DUES_BLESS=1` writes them.

mod alarms;
mod roles;
mod tables;

use dues_lambda::Function;
use dues_store::Table;
use dues_store::table::figureforge::FIGUREFORGE;
use dues_store::table::serenya::SERENYA;
use dues_store::table::{ALL, usage};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ministack::python;

/// Where the template is.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/template.yaml")
}

/// The template as it is written, and as CloudFormation gets it from the SAM translator, with the artifact at that place in S3.
///
/// # Panics
/// The translator finds something wrong with it.
pub fn translated(code: &str) -> (Value, Value) {
    let script = include_str!("translate.py");
    let output =
        Command::new(python()).args(["-c", script]).arg(path()).arg(code).env("AWS_DEFAULT_REGION", "eu-central-1").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut both: Value = serde_json::from_slice(&output.stdout).unwrap();
    (both["written"].take(), both["translated"].take())
}

/// Every part, by the name that its marks have.
pub fn parts() -> Vec<(&'static str, String)> {
    vec![
        ("table parameters", all(tables::parameters)),
        ("table conditions", all(tables::conditions)),
        ("table names", all(tables::name)),
        ("tables", all(tables::resource)),
        ("roles", functions(roles::role)),
        ("alarms of functions", functions(alarms::of_function)),
        ("alarms of tables", all(alarms::of_table)),
    ]
}

/// The template with its parts made anew.
///
/// # Panics
/// A mark is missing.
pub fn renewed(template: &str) -> String {
    let mut text = template.to_owned();
    for (name, part) in parts() {
        let (begin, end) = (format!("# begin: {name}"), format!("# end: {name}"));
        let from = text.find(&begin).unwrap_or_else(|| panic!("the template has no line {begin:?}"));
        let from = from + text[from..].find('\n').unwrap() + 1;
        let to = text.find(&end).unwrap_or_else(|| panic!("the template has no line {end:?}"));
        let to = text[..to].rfind('\n').unwrap() + 1;
        text.replace_range(from..to, &part);
    }
    text
}

/// `billing-activity` as `BillingActivity`.
pub fn logical(name: &str) -> String {
    let words = name.split(['-', '_']).map(|word| word[..1].to_uppercase() + &word[1..]);
    words.collect()
}

/// Whether a table may be there already. Those whose names begin with ours are nobody else's.
pub fn may_exist(table: &Table) -> bool {
    !table.name.starts_with("dues-")
}

/// The condition under which a deployment has a table that belongs to a read model.
pub fn model_condition(table: &Table) -> Option<&'static str> {
    match table.name {
        name if usage::ALL.iter().any(|table| table.name == name) => Some("HasUsage"),
        name if name == FIGUREFORGE.name => Some("HasFigureforge"),
        name if name == SERENYA.name => Some("HasSerenya"),
        _ => None,
    }
}

/// Whether a table's name ends with that of the environment, as its seed has it.
pub fn is_per_environment(table: &Table) -> bool {
    table.name == SERENYA.name || usage::ALL.iter().any(|other| other.name == table.name)
}

/// What a table is called, in the template's words.
pub fn table_name(table: &Table) -> String {
    let (id, name) = (logical(table.name), table.name);
    if is_per_environment(table) {
        return format!("!If [{id}IsNamed, !Ref {id}Name, !Sub '{name}-${{Environment}}']");
    }
    format!("!Ref {id}Name")
}

fn all(part: impl Fn(&'static Table) -> String) -> String {
    ALL.into_iter().map(part).collect()
}

fn functions(part: impl Fn(Function) -> String) -> String {
    Function::ALL.into_iter().map(part).collect()
}
