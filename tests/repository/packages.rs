//! Requirements for publishing a crate: fields of its manifest, a page, licenses. `scripts/check-packages`
//! makes the packages.

use std::{fs, path::Path};

#[test]
fn crates_are_publishable_or_marked_unpublished() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let mut unpublished = Vec::new();
    for folder in folders.chain([root.to_owned()]) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let package = manifest.split_once("[package]").unwrap().1.split("\n[").next().unwrap();
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).unwrap().trim_matches('"');
        if package.contains("publish = false") {
            unpublished.push(name.to_owned());
            continue;
        }
        for field in [
            "description = ",
            "version.workspace = true",
            "license.workspace = true",
            "repository.workspace = true",
            "readme = \"README.md\"",
            // Goldens and tests would be most of a package.
            "include = [",
        ] {
            assert!(package.contains(field), "{name}: its manifest has no `{field}`");
        }
        for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read(folder.join(license)).unwrap_or_default();
            assert!(text == fs::read(root.join(license)).unwrap(), "{name}: {license}");
        }
        let page = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        assert!(page.contains(&format!("# {name}")), "{name}: README.md does not begin with its name");
    }
    unpublished.sort();
    assert_eq!(unpublished, ["gguf-fuzzing", "gguf-testkit"]);
}

#[test]
fn crates_that_run_no_unit_tests_have_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut n_without = 0;
    for folder in fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        if fs::read_to_string(folder.join("Cargo.toml")).unwrap().contains("\ntest = false\n") {
            n_without += 1;
            for file in gguf_testkit::rust_files(&folder.join("src")) {
                assert!(!fs::read_to_string(&file).unwrap().contains("#[test]"), "{}", file.display());
            }
        }
    }
    assert_eq!(n_without, 1, "crates without tests in src");
}

#[test]
fn archives_have_the_licenses_of_texts_and_crates() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let notices = "crates/toolkit/src/calibration_text/builtin/NOTICES";
    let expected = fs::read(root.join(notices)).unwrap();
    assert!(fs::read(root.join("python/NOTICES")).unwrap() == expected);
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    for recipe in ["scripts/build-binaries", ".github/workflows/release.yml"] {
        let recipe_has =
            |parts: [&str; 2]| read(recipe).lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(recipe_has(["cp ", notices]), "{recipe}");
        assert!(recipe_has(["scripts/third-party", "THIRD-PARTY"]), "{recipe}");
    }
    assert!(read("python/pyproject.toml").contains("[\"LICENSE-*\", \"NOTICES\", \"THIRD-PARTY*\"]"));
}

/// The profiles of a manifest.
fn profiles(manifest: &str) -> &str {
    &manifest[manifest.find("[profile.release]").unwrap()..]
}

#[test]
fn python_package_has_the_same_profiles() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let ours = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let ours = profiles(&ours);
    let (start, end) = (ours.find("# For long fuzz runs").unwrap(), ours.find("[profile.dev]").unwrap());
    // The mutation loop is for tests of this workspace. A panic becomes an exception of Python, which takes unwinding.
    let is_abort = |line: &&str| line.starts_with("panic = ");
    let abort = ours.lines().find(is_abort).unwrap();
    let expected = [&ours[..start], &ours[end..]].concat().replace(abort, "panic = \"unwind\"");
    let path = root.join("python/Cargo.toml");
    let theirs = fs::read_to_string(&path).unwrap();
    gguf_testkit::check_written(&path, &theirs.replace(profiles(&theirs), &expected));
}

#[test]
fn python_package_contains_every_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let project = fs::read_to_string(root.join("python/pyproject.toml")).unwrap();
    let page = fs::read_to_string(root.join("python/README.md")).unwrap();
    for binary in gguf_tools::commands::BINARIES {
        let verb = binary.name.trim_start_matches("gguf-");
        let line = format!("{} = \"gguf_tools._commands:{verb}\"", binary.name);
        assert!(project.contains(&line), "python/pyproject.toml has no `{line}`");
        assert!(
            page.contains(&format!("`{}`", binary.name)),
            "python/README.md does not name {}",
            binary.name
        );
    }
}

#[test]
#[cfg(unix)]
fn formula_has_the_checksums_of_archives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    assert!(read("Cargo.toml").contains("{ name }-{ version }-{ target }.tar.gz\""));
    let built = read("scripts/build-binaries") + &read(".github/workflows/release.yml");
    let targets = ["apple-darwin", "unknown-linux-musl"]
        .map(|system| ["aarch64", "x86_64"].map(|cpu| format!("{cpu}-{system}")));
    let archives: Vec<String> =
        targets.iter().flatten().map(|target| format!("gguf-tools-9.8.7-{target}.tar.gz")).collect();
    assert!(targets.iter().flatten().all(|target| built.contains(target)));
    let folder = tempfile::tempdir().unwrap();
    let formula = |archives: &[String]| {
        let sums = folder.path().join("SHA256SUMS");
        let lines = archives.iter().enumerate().map(|(index, name)| format!("{index:064}  {name}\n"));
        fs::write(&sums, lines.collect::<String>()).unwrap();
        std::process::Command::new(root.join("scripts/homebrew-formula"))
            .arg("9.8.7")
            .arg(sums)
            .output()
            .unwrap()
    };
    let made = String::from_utf8(formula(&archives).stdout).unwrap();
    for (index, name) in archives.iter().enumerate() {
        assert!(
            made.contains(&format!("/v9.8.7/{name}\"\n      sha256 \"{index:064}\"\n")),
            "{name}: {made}"
        );
    }
    assert!(!formula(&archives[1..]).status.success(), "an archive without a checksum");
}
