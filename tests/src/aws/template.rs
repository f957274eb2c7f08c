//! The parts of `infra/template.yaml` that follow from Rust declarations: tables, roles and their alarms.
//! They are generated here, between two markers in the template; a test compares them, and `DUES_BLESS=1`
//! writes them.

mod alarms;
mod roles;
mod tables;

use dues_lambda::Function;
use dues_store::table::{ALL, usage};
use dues_store::{Table, TableId};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::aws::ministack::python;

/// The path of the template.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/template.yaml")
}

/// The template as written, and as the SAM translator passes it to CloudFormation, with the artifact at
/// `code` in S3.
///
/// # Panics
/// If the translator rejects the template.
pub fn translated(code: &str) -> (Value, Value) {
    let script = include_str!("translate.py");
    let output = Command::new(python())
        .args(["-c", script])
        .arg(path())
        .arg(code)
        .env("AWS_DEFAULT_REGION", "eu-central-1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut both: Value = serde_json::from_slice(&output.stdout).unwrap();
    (both["written"].take(), both["translated"].take())
}

/// All generated parts, by the name in their markers.
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

/// The template with its parts regenerated.
///
/// # Panics
/// If a marker is missing.
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

/// Whether a table may exist before the deployment. Tables with our prefix belong to this stack.
pub fn may_exist(table: &Table) -> bool {
    !table.name.starts_with("dues-")
}

/// The condition for the tables of a read model.
pub fn model_condition(table: &Table) -> Option<&'static str> {
    match table.id {
        TableId::UserSubscriptions | TableId::UserUsage | TableId::ActionsLog => Some("HasUsage"),
        TableId::Figureforge => Some("HasFigureforge"),
        TableId::Serenya => Some("HasSerenya"),
        TableId::BillingActivity
        | TableId::History
        | TableId::Locks
        | TableId::Parked
        | TableId::Sandbox
        | TableId::Groups
        | TableId::GgCore
        | TableId::Entitlements
        | TableId::Journal
        | TableId::UnappliedMoney => None,
    }
}

/// Whether a table's name ends with the environment's: those of usage and serenya.
pub fn is_per_environment(table: &Table) -> bool {
    table.id == TableId::Serenya || usage::ALL.iter().any(|other| other.id == table.id)
}

/// The expression for a table's name in the template.
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
