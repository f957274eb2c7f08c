//! The Python environment in the target folder, with ministack, the Stripe library and a stand-in for
//! Stripe.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Doing, Failure, Result, output, run, works};

/// Installs exactly what the requirements file lists, and returns the Python of the environment. Does
/// nothing while the copy of the requirements in the environment is unchanged.
pub fn install(target: &Path, requirements: &Path) -> Result<PathBuf> {
    install_into(&target.join("venv"), requirements, "ministack.app, stripe, cfnlint")
}

/// Like [`install`] for any environment. `modules` are the imports that prove that it works.
pub fn install_into(venv: &Path, requirements: &Path, modules: &str) -> Result<PathBuf> {
    let wanted = fs::read_to_string(requirements).doing("read the requirements")?;
    let marker = venv.join("requirements.stamp");
    let python = venv.join("bin/python");
    let installed = fs::read_to_string(&marker).is_ok_and(|found| found == wanted);
    if installed && works(Command::new(&python).args(["-c", &format!("import {modules}")])) {
        println!("already installed");
        return Ok(python);
    }
    if venv.exists() {
        fs::remove_dir_all(venv).doing("remove the outdated Python environment")?;
    }
    create(venv)?;
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
        .arg(requirements))?;
    fs::write(&marker, wanted).doing("write the marker of the Python environment")?;
    Ok(python)
}

/// The Python of the environment in a target folder, whether or not it exists.
pub fn python_in(target: &Path) -> PathBuf {
    target.join("venv/bin/python")
}

fn create(venv: &Path) -> Result<()> {
    let make = || run(Command::new("python3").args(["-m", "venv"]).arg(venv));
    if make().is_ok() {
        return Ok(());
    }
    let advice = "the tests need Python 3 with its venv module: apt-get install python3 python3-venv";
    println!("{advice}");
    let root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if !root || !works(Command::new("apt-get").arg("--version")) {
        return Err(Failure::new(advice));
    }
    run(Command::new("apt-get").args(["update", "-qq"]))?;
    run(Command::new("apt-get").args(["install", "-y", "-qq", "python3", "python3-venv"]))?;
    if venv.exists() {
        fs::remove_dir_all(venv).doing("remove a half-made Python environment")?;
    }
    make()
}
