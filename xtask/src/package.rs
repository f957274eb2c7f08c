//! `cargo xtask package`: the Lambda artifact, one zip with one binary, for each processor that this machine
//! can build for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::python;
use crate::step::{Doing, Failure, Result, output, run, step, works};
use crate::workspace::Workspace;

/// The glibc 2.x of `provided.al2023`: a binary that needs a newer one does not start there.
const GLIBC: u32 = 34;
/// Target triple of Lambda on Arm.
const ARM: &str = "aarch64-unknown-linux-gnu";
/// Tools for cross-building to Arm: cargo-lambda, and zig as its linker. Both are wheels, so nothing has to
/// be compiled for them.
const CROSS: &str = "cargo-lambda==1.9.1\nziglang==0.15.2\n";

/// Python writes the zip: the tests need it anyway, and it keeps the executable bit. The timestamp is
/// constant, so that the same binary gives the same zip.
const ZIP: &str = "\
import sys, zipfile
binary, path = sys.argv[1:]
info = zipfile.ZipInfo('bootstrap', (1980, 1, 1, 0, 0, 0))
info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o100755 << 16
with zipfile.ZipFile(path, 'w') as out, open(binary, 'rb') as file:
    out.writestr(info, file.read(), compresslevel=9)
";

/// Builds and packs for this machine's processor, and for Arm if its Rust target is installed.
pub fn package(workspace: &Workspace) -> Result<()> {
    step("package bootstrap", || native(workspace))?;
    if !has_arm() {
        println!("not packaged for arm64: `rustup target add {ARM}` makes that possible");
        return Ok(());
    }
    step("package bootstrap for arm64", || arm(workspace))
}

/// The zip for this machine's processor, rebuilt if necessary.
pub fn native(workspace: &Workspace) -> Result<PathBuf> {
    // Lambda writes no core dumps: symbols are useless there.
    let build = [
        "rustc",
        "--release",
        "--locked",
        "--package",
        "dues-lambda",
        "--bin",
        "bootstrap",
        "--",
        "-C",
        "strip=symbols",
    ];
    run(&mut workspace.cargo(&build))?;
    pack(&workspace.target.join("release/bootstrap"), &workspace.target.join("lambda/bootstrap.zip"))
}

fn arm(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("lambda");
    fs::create_dir_all(&folder).doing("make the folder of the artifact")?;
    let requirements = folder.join("cross.txt");
    fs::write(&requirements, CROSS).doing("write what building for arm64 needs")?;
    let python = python::install_into(&folder.join("venv"), &requirements, "ziglang")?;
    let tools = python.parent().map(Path::to_path_buf).unwrap_or_default();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path)))
        .doing("put cargo-lambda on the path")?;
    let build = [
        "lambda",
        "build",
        "--release",
        "--locked",
        "--arm64",
        "--package",
        "dues-lambda",
        "--bin",
        "bootstrap",
    ];
    run(workspace.cargo(&build).env("PATH", path))?;
    let built = workspace.target.join("lambda/bootstrap/bootstrap");
    pack(&built, &folder.join("bootstrap-arm64.zip")).map(drop)
}

fn pack(binary: &Path, zip: &Path) -> Result<PathBuf> {
    let bytes = fs::read(binary).doing("read the binary")?;
    if let Some(newer) = newest_glibc(&bytes).filter(|newest| *newest > GLIBC) {
        return Err(Failure::new(format!(
            "the binary asks for glibc 2.{newer}, Lambda has 2.{GLIBC}: build it on an older system"
        )));
    }
    if let Some(folder) = zip.parent() {
        fs::create_dir_all(folder).doing("make the folder of the artifact")?;
    }
    run(Command::new("python3").args(["-c", ZIP]).arg(binary).arg(zip))?;
    let packed = fs::metadata(zip).doing("look at the zip")?.len();
    println!("{}: {} of {} MB", zip.display(), megabytes(packed), megabytes(bytes.len() as u64));
    Ok(zip.to_path_buf())
}

/// Megabytes with one decimal, rounded up.
pub(crate) fn megabytes(bytes: u64) -> String {
    let tenths = (bytes * 10).div_ceil(1_000_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}

/// The newest glibc that a binary requires, as the number after `2.`.
fn newest_glibc(binary: &[u8]) -> Option<u32> {
    const NAME: &[u8] = b"GLIBC_2.";
    let places = binary.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let digits = places.map(|(at, _)| {
        binary[at + NAME.len()..].iter().take_while(|byte| byte.is_ascii_digit()).copied().collect()
    });
    digits.filter_map(|digits: Vec<u8>| String::from_utf8(digits).ok()?.parse().ok()).max()
}

fn has_arm() -> bool {
    works(Command::new("rustup").arg("--version"))
        && output(Command::new("rustup").args(["target", "list", "--installed"]))
            .is_ok_and(|all| all.lines().any(|target| target == ARM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_glibc_counts() {
        assert_eq!(newest_glibc(b"..GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.17\0"), Some(34));
        assert_eq!(newest_glibc(b"static"), None);
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(
            (megabytes(3_000_000), megabytes(3_000_001), megabytes(12_345_678)),
            ("3.0".into(), "3.1".into(), "12.4".into())
        );
    }
}
