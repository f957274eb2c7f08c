//! A real browser for the console's tests: Debian's Chromium, driven by playwright-core installed below the
//! target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Doing, Failure, Result, output, run, works};

/// Names of the Chromium executable.
const NAMES: [&str; 2] = ["chromium", "chromium-browser"];

/// Installs exactly what the package file lists, and Chromium if there is none. Does nothing while the copy
/// of the package file in the folder is unchanged.
pub fn install(target: &Path, package: &Path) -> Result<()> {
    let chromium = find().map_or_else(install_chromium, Ok)?;
    println!("browser: {}", chromium.display());
    let wanted = fs::read_to_string(package).doing("read the package file of the browser tests")?;
    let folder = folder_in(target);
    let (installed, module) =
        (folder.join("package.json"), folder.join("node_modules/playwright-core/package.json"));
    if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) && module.exists() {
        println!("already installed");
        return Ok(());
    }
    if !works(Command::new("npm").arg("--version")) {
        return Err(Failure::new("the browser tests need Node.js with npm: apt-get install nodejs npm"));
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).doing("remove the outdated folder of the browser tests")?;
    }
    fs::create_dir_all(&folder).doing("make the folder of the browser tests")?;
    fs::write(&installed, wanted).doing("write the package file of the browser tests")?;
    // A lock file would name this machine's registry.
    let quietly =
        ["install", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
    run(Command::new("npm").args(quietly).current_dir(&folder))
}

/// The folder of playwright-core in a target folder, whether or not it exists.
pub fn folder_in(target: &Path) -> PathBuf {
    target.join("browser")
}

/// This machine's Chromium.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| NAMES.map(|name| folder.join(name)))
        .find(|file| file.is_file())
}

fn install_chromium() -> Result<PathBuf> {
    let advice = "the console's tests need a browser: apt-get install chromium";
    println!("{advice}");
    let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || !works(Command::new("apt-get").arg("--version")) {
        return Err(Failure::new(advice));
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get").args([
        "install",
        "-y",
        "-qq",
        "--no-install-recommends",
        "chromium",
        "fonts-dejavu-core",
    ]))?;
    find().ok_or_else(|| Failure::new(advice))
}
