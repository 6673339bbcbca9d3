//! One executable contains the code of all programs; the others start it.

use std::path::Path;

use crate::common::{Output, Sandbox};
use gguf_tools::commands::BINARIES;

const SHARED: &str = env!("CARGO_BIN_EXE_gguf-tools");

fn run(sandbox: &Sandbox, executable: &Path, arguments: &[&str]) -> Output {
    sandbox.run(executable.to_str().unwrap(), arguments)
}

#[test]
fn programs_are_called_by_argument() {
    let sandbox = Sandbox::new();
    for binary in BINARIES {
        let direct = run(&sandbox, &Path::new(SHARED).with_file_name(binary.name), &["--help"]);
        assert!(direct.code == Some(0) && direct.stdout.starts_with(binary.about), "{}", direct.stderr);
        for name in [binary.name, binary.name.strip_prefix("gguf-").unwrap()] {
            assert_eq!(run(&sandbox, Path::new(SHARED), &[name, "--help"]), direct, "{name}");
        }
    }
    let help = run(&sandbox, Path::new(SHARED), &["--help"]);
    assert!(help.code == Some(0) && BINARIES.iter().all(|binary| help.stdout.contains(binary.about)));
    for wrong in [&["gguf-other"][..], &[]] {
        let ran = run(&sandbox, Path::new(SHARED), wrong);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
        assert!(ran.stderr.contains("expected the name of a program"), "{}", ran.stderr);
    }
}

#[test]
#[cfg(unix)]
fn programs_are_called_by_link() {
    let sandbox = Sandbox::new();
    for binary in BINARIES {
        let link = sandbox.path(binary.name);
        std::os::unix::fs::symlink(SHARED, &link).unwrap();
        let ran = run(&sandbox, &link, &["--help"]);
        assert!(ran.code == Some(0) && ran.stdout.starts_with(binary.about), "{}", ran.stderr);
    }
}

#[test]
#[cfg(unix)]
fn launcher_names_what_it_lacks() {
    let sandbox = Sandbox::new();
    let alone = sandbox.path("gguf-convert");
    // Another process copies it: one that is written here could be open for writing in a process that another test starts.
    let copied =
        std::process::Command::new("cp").arg(env!("CARGO_BIN_EXE_gguf-convert")).arg(&alone).status();
    assert!(copied.unwrap().success());
    let ran = run(&sandbox, &alone, &["--help"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
    assert!(ran.stderr.contains("`gguf-convert` found no `gguf-tools` in its folder"), "{}", ran.stderr);
}
