//! Checks the dependencies: licences, sources, versions, and the crates that must stay pure. Works offline.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde_json::Value;

use crate::licences;
use crate::step::{Failure, Result, output, run, works};
use crate::workspace::Workspace;

/// The only allowed registry, as cargo names it in the lock file, whichever mirror a machine uses.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that decide and fold. They must run anywhere: no runtime, no cloud.
const PURE: &[&str] = &["dues-events", "dues-projections"];

/// The programs that ship: the single executable, and the Lambda artifact.
const PROGRAMS: [&str; 2] = ["dues", "dues-lambda"];

/// Crates that a program may ship in two versions. AWS's crates for Lambda disagree on base64. rusqlite
/// stays at the version that dynoxide-rs links, with an older hashbrown than utoipa's indexmap has.
const TWICE: &[(&str, &str)] = &[("dues-lambda", "base64"), ("dues", "hashbrown")];

/// Checks all rules of this file, and cargo-deny's where it is installed.
pub fn check(workspace: &Workspace) -> Result<()> {
    let graph = Graph::read(&workspace.metadata)?;
    let mut found = graph.licences();
    found.extend(graph.sources());
    found.extend(graph.any_version());
    found.extend(graph.impure());
    for program in PROGRAMS {
        found.extend(shipped_twice(program, &linked_by(workspace, program)?));
    }
    Failure::unless_none("dependencies that break a rule", &found)?;
    println!("{} packages: licences, sources, versions and pure crates are in order", graph.packages.len());

    let deny = works(&mut workspace.cargo(&["deny", "--version"]));
    if deny {
        run(&mut workspace.cargo(&["deny", "--offline", "check", "licenses", "bans", "sources"]))?;
    }
    advisories(workspace, deny)
}

/// Checks advisories if their database is on this machine; only the network can provide it.
fn advisories(workspace: &Workspace, deny: bool) -> Result<()> {
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(std::path::PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    let has = |folder: &str| cargo_home.as_ref().is_some_and(|home| home.join(folder).is_dir());
    if deny && has("advisory-dbs") {
        run(&mut workspace.cargo(&["deny", "--offline", "check", "advisories"]))
    } else if has("advisory-db") && works(&mut workspace.cargo(&["audit", "--version"])) {
        run(&mut workspace.cargo(&["audit", "--no-fetch", "--stale"]))
    } else {
        println!("advisories were NOT checked: no advisory database can be reached offline");
        Ok(())
    }
}

struct Package<'a> {
    name: &'a str,
    version: &'a str,
    licence: Option<&'a str>,
    /// `None` for our own crates.
    source: Option<&'a str>,
    /// Name and required version of each dependency that is not given by path.
    requires: Vec<(&'a str, &'a str)>,
    /// Ids of the crates that the built crate links.
    normal: Vec<&'a str>,
}

struct Graph<'a> {
    packages: BTreeMap<&'a str, Package<'a>>,
}

impl<'a> Graph<'a> {
    fn read(metadata: &'a Value) -> Result<Self> {
        let mut normal: HashMap<&str, Vec<&str>> = HashMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let linked = list(&node["deps"])
                .filter(|dep| list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()))
                .filter_map(|dep| dep["pkg"].as_str());
            normal.insert(text(&node["id"])?, linked.collect());
        }
        let mut packages = BTreeMap::new();
        for package in list(&metadata["packages"]) {
            let id = text(&package["id"])?;
            packages.insert(
                id,
                Package {
                    name: text(&package["name"])?,
                    version: text(&package["version"])?,
                    licence: package["license"].as_str(),
                    source: package["source"].as_str(),
                    requires: list(&package["dependencies"])
                        .filter(|dependency| dependency["path"].is_null())
                        .filter_map(|dep| Some((dep["name"].as_str()?, dep["req"].as_str()?)))
                        .collect(),
                    normal: normal.remove(id).unwrap_or_default(),
                },
            );
        }
        Ok(Self { packages })
    }

    fn third_party(&self) -> impl Iterator<Item = (&'a str, &Package<'a>)> {
        self.packages.values().filter_map(|package| Some((package.source?, package)))
    }

    fn licences(&self) -> Vec<String> {
        self.third_party()
            .filter_map(|(_, package)| {
                let problem = match package.licence.map(licences::acceptable) {
                    Some(Ok(true)) => return None,
                    Some(Ok(false)) => "is not on the list of accepted licences".to_owned(),
                    Some(Err(why)) => format!("cannot be read: {why}"),
                    None => "is missing".to_owned(),
                };
                let licence = package.licence.unwrap_or_default();
                Some(format!("{} {}: licence `{licence}` {problem}", package.name, package.version))
            })
            .collect()
    }

    fn sources(&self) -> Vec<String> {
        self.third_party()
            .filter(|(source, _)| *source != REGISTRY)
            .map(|(_, package)| format!("{} {}: not from crates.io", package.name, package.version))
            .collect()
    }

    fn any_version(&self) -> Vec<String> {
        let ours = self.packages.values().filter(|package| package.source.is_none());
        ours.flat_map(|package| {
            let wild = package.requires.iter().filter(|(_, version)| *version == "*");
            wild.map(|(name, _)| format!("{} asks for any version of {name}", package.name))
        })
        .collect()
    }

    fn impure(&self) -> Vec<String> {
        let mut found = Vec::new();
        for pure in PURE {
            let linked = self.linked_by(pure);
            if linked.is_empty() {
                found.push(format!("{pure}, a crate that must stay pure, is not in the workspace"));
            }
            let named = linked.iter().map(|package| package.name);
            let impure = named.filter(|name| *name == "tokio" || name.starts_with("aws"));
            found.extend(impure.map(|name| format!("{pure} must stay pure, but links {name}")));
        }
        found
    }

    /// Our crate with this name, and everything it links.
    fn linked_by(&self, name: &str) -> Vec<&Package<'a>> {
        let root = self.packages.iter().find(|(_, package)| package.source.is_none() && package.name == name);
        let mut waiting: Vec<&str> = root.map(|(id, _)| *id).into_iter().collect();
        let mut seen: BTreeMap<&str, &Package<'a>> = BTreeMap::new();
        while let Some(id) = waiting.pop() {
            if let Some(package) = self.packages.get(id)
                && seen.insert(id, package).is_none()
            {
                waiting.extend(&package.normal);
            }
        }
        seen.into_values().collect()
    }
}

/// The crates that a program links on this platform, one `name version` per line. The metadata is not
/// enough: it includes dependencies that only a disabled feature or another platform would link.
fn linked_by(workspace: &Workspace, program: &str) -> Result<String> {
    let edges = "normal,no-proc-macro";
    output(&mut workspace.cargo(&[
        "tree",
        "--locked",
        "--package",
        program,
        "--edges",
        edges,
        "--prefix",
        "none",
    ]))
}

/// Finds crates that a program links in two versions, which doubles their code. Macros run in the compiler
/// and do not count.
fn shipped_twice(program: &str, tree: &str) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in tree.lines() {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            versions.entry(name).or_default().insert(version);
        }
    }
    versions
        .into_iter()
        .filter(|(name, versions)| versions.len() > 1 && !TWICE.contains(&(program, name)))
        .map(|(name, versions)| {
            let versions: Vec<&str> = versions.into_iter().collect();
            format!("{program} ships {name} in {} versions: {}", versions.len(), versions.join(", "))
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().ok_or_else(|| Failure::new(format!("cargo metadata: a text was expected, not {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(id: &str, name: &str, version: &str, licence: Value, source: Value) -> Value {
        json!({"id": id, "name": name, "version": version, "license": licence, "source": source,
               "dependencies": []})
    }

    fn ours(name: &str) -> Value {
        package(name, name, "0.1.0", json!("MIT"), Value::Null)
    }

    fn theirs(id: &str, name: &str, version: &str) -> Value {
        package(id, name, version, json!("MIT"), json!(REGISTRY))
    }

    fn node(id: &str, normal: &[&str], dev: &[&str]) -> Value {
        let dep = |id: &&str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let deps: Vec<Value> = normal
            .iter()
            .map(|id| dep(id, Value::Null))
            .chain(dev.iter().map(|id| dep(id, json!("dev"))))
            .collect();
        json!({"id": id, "deps": deps})
    }

    fn metadata(packages: &[Value], nodes: &[Value]) -> Value {
        json!({"packages": packages, "resolve": {"nodes": nodes}})
    }

    #[test]
    fn a_runtime_far_below_a_pure_crate_is_found_and_a_dev_dependency_is_not() {
        let packages = [
            ours("dues-events"),
            ours("dues-projections"),
            theirs("m", "middle", "1.0.0"),
            theirs("t", "tokio", "1.0.0"),
            theirs("a", "aws-types", "1.0.0"),
        ];
        let nodes = [
            node("dues-events", &["m"], &["a"]),
            node("dues-projections", &[], &["m"]),
            node("m", &["t"], &[]),
        ];
        let metadata = metadata(&packages, &nodes);
        let found = Graph::read(&metadata).unwrap().impure();
        assert_eq!(found, ["dues-events must stay pure, but links tokio"]);
    }

    #[test]
    fn a_pure_crate_that_was_renamed_does_not_slip_through() {
        let metadata = metadata(&[ours("dues-events")], &[]);
        let found = Graph::read(&metadata).unwrap().impure();
        assert_eq!(found, ["dues-projections, a crate that must stay pure, is not in the workspace"]);
    }

    #[test]
    fn licences_and_sources_are_checked_for_others_crates_only() {
        let packages = [
            package("o", "ours", "0.1.0", Value::Null, Value::Null),
            package("g", "gnu", "1.0.0", json!("GPL-3.0-only"), json!(REGISTRY)),
            package("n", "none", "1.0.0", Value::Null, json!(REGISTRY)),
            package("x", "odd", "1.0.0", json!("MIT OR"), json!("git+https://example.com/odd")),
        ];
        let metadata = metadata(&packages, &[]);
        let graph = Graph::read(&metadata).unwrap();
        assert_eq!(
            graph.licences(),
            [
                "gnu 1.0.0: licence `GPL-3.0-only` is not on the list of accepted licences",
                "none 1.0.0: licence `` is missing",
                "odd 1.0.0: licence `MIT OR` cannot be read: a licence was expected at the end",
            ]
        );
        assert_eq!(graph.sources(), ["odd 1.0.0: not from crates.io"]);
    }

    #[test]
    fn any_version_is_refused_in_our_crates_but_not_between_them() {
        let mut one = ours("one");
        one["dependencies"] = json!([
            {"name": "wild", "req": "*", "path": null},
            {"name": "sibling", "req": "*", "path": "/somewhere"},
            {"name": "tame", "req": "^1", "path": null},
        ]);
        let metadata = metadata(&[one], &[]);
        assert_eq!(Graph::read(&metadata).unwrap().any_version(), ["one asks for any version of wild"]);
    }

    #[test]
    fn two_versions_in_the_program_are_found() {
        let tree = "dues v0.1.0 (path)\nhash v1.0.0\nmemory v1.2.0\nhash v2.0.0\nmemory v1.2.0 (*)\n\n";
        assert_eq!(shipped_twice("dues", tree), ["dues ships hash in 2 versions: v1.0.0, v2.0.0"]);
        assert_eq!(shipped_twice("dues-lambda", "base64 v1.0.0\nbase64 v2.0.0"), Vec::<String>::new());
    }
}
