//! Full, limited, broken or missing disks: an error that names the problem, and no file under a final name.
//!
//! Tests that mount disks or inject faults need root, `mke2fs` and `strace`. They are ignored by default;
//! `scripts/check` runs them if possible (`cargo test --test all runs::faults -- --ignored`).

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
};

use crate::common::{
    Output, Sandbox, finish, has_finished_rows, sandbox_of_weights as sandbox, signal, succeed, wait_until,
    words,
};

const CONVERT: &str = env!("CARGO_BIN_EXE_gguf-convert");

/// The output of [`SLOW`] has 2 MB.
const SLOW: &[&str] = &["tiny", "out/x.gguf", "-t", "iq3_s", "-j", "1", "-q"];

/// A file system that goes with this value.
struct Mount(PathBuf);

impl Mount {
    /// Mounts a file system with the arguments of `mount`.
    fn new(at: PathBuf, args: &[&str]) -> Mount {
        fs::create_dir_all(&at).unwrap();
        let output = Command::new("mount").args(args).arg(&at).output().unwrap();
        assert!(output.status.success(), "mount {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Mount(at)
    }

    /// Mounts a new file system in the file `image`.
    fn of_image(at: PathBuf, image: &Path, kind: &str, n_bytes: u64) -> Mount {
        fs::File::create(image).unwrap().set_len(n_bytes).unwrap();
        let output = Command::new("mke2fs").args(["-q", "-F", "-t", kind]).arg(image).output().unwrap();
        assert!(output.status.success(), "mke2fs: {}", String::from_utf8_lossy(&output.stderr));
        Mount::new(at, &["-o", "loop", image.to_str().unwrap()])
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || thread::panicking());
    }
}

/// Runs until rows are noted, and holds.
fn held_with_rows(sandbox: &Sandbox) -> Child {
    let journal = sandbox.path("out/.x.gguf.journal");
    let child = wait_until(sandbox.spawn(CONVERT, SLOW), 120, || has_finished_rows(&journal));
    signal(&child, "STOP");
    child
}

fn go_on(child: Child) -> Output {
    signal(&child, "CONT");
    finish(child)
}

/// The file that [`SLOW`] makes.
fn expected(sandbox: &Sandbox) -> Vec<u8> {
    succeed(sandbox.convert(&["tiny", "x.gguf", "-t", "iq3_s"]));
    sandbox.read("x.gguf")
}

/// Resumes after a fault is mended.
fn goes_on(sandbox: &Sandbox, expected: &[u8]) {
    let ran = succeed(sandbox.convert(&[&SLOW[..6], &["--resume"]].concat()));
    ran.says("note: resuming: ");
    assert!(sandbox.read("out/x.gguf") == expected, "other bytes");
}

#[test]
#[ignore = "needs root, mke2fs and strace"]
fn too_small_disk_is_reported_first() {
    let sandbox = sandbox();
    let _disk = Mount::new(sandbox.path("out"), &words("-t tmpfs -o size=2m tmpfs"));
    for args in
        [&["tiny", "out/x.gguf", "-q", "-t", "q8_0"][..], &["tiny", "out/{ftype}", "-q", "-t", "iq3_s,q2_k"]]
    {
        let ran = sandbox.convert(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}", ran.stderr);
        let line = ran.stderr.lines().next().unwrap();
        assert!(line.starts_with("error: out: ") && line.ends_with(" free"), "{args:?}: {}", ran.stderr);
        assert!(line.contains(" MB needed, 2."), "{args:?}: {}", ran.stderr);
        assert!(sandbox.outputs().is_empty(), "{args:?}: {:?}", sandbox.outputs());
    }
}

#[test]
#[ignore = "needs root, mke2fs and strace"]
fn full_disk_is_a_recoverable_error() {
    let sandbox = sandbox();
    let expected = expected(&sandbox);
    // This file system cannot reserve space.
    let image = sandbox.path("image");
    let _disk = Mount::of_image(sandbox.path("out"), &image, "ext2", 8 << 20);
    let child = held_with_rows(&sandbox);
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "of=out/filler", "bs=1024"]).current_dir(sandbox.path("")).stderr(Stdio::null());
    assert!(!dd.status().unwrap().success(), "the disk is not full");
    let ran = go_on(child);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.starts_with("error: ") && ran.stderr.contains("No space left on device"),
        "{}",
        ran.stderr
    );
    ran.says("use --resume to continue");
    assert!(!sandbox.path("out/x.gguf").exists());
    fs::remove_file(sandbox.path("out/filler")).unwrap();
    goes_on(&sandbox, &expected);
}

#[test]
fn file_size_limit_is_an_error() {
    let sandbox = sandbox();
    // In blocks of 512 or 1024 bytes: less than the file in either.
    let run = format!("ulimit -f 1000; exec {CONVERT} {}", SLOW.join(" "));
    let ran = sandbox.run("sh", &["-c", &run]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains("File too large"), "{}", ran.stderr);
    assert!(sandbox.outputs().is_empty(), "{:?}", sandbox.outputs());
}

/// Runs [`SLOW`] with a system call that fails.
fn with_fault(sandbox: &Sandbox, fault: &str) -> Output {
    let calls = fault.split(':').next().unwrap_or_default();
    let (calls, inject) = (format!("trace={calls}"), format!("inject={fault}"));
    let tracer = ["-f", "-qq", "-o", "/dev/null", "-e", "signal=none", "-e", &calls, "-e", &inject];
    let tried = sandbox.command("strace").args(tracer).arg("true").output().unwrap();
    assert!(
        tried.status.success(),
        "strace cannot inject `{fault}`: {}",
        String::from_utf8_lossy(&tried.stderr)
    );
    sandbox.run("strace", &[&tracer[..], &[CONVERT], SLOW].concat())
}

#[test]
#[ignore = "needs root, mke2fs and strace"]
fn quota_and_failing_disk_are_errors() {
    let sandbox = sandbox();
    let expected = expected(&sandbox);
    // A quota when space is reserved, and a quota later; a disk that fails when rows are written, and when
    // they are synced.
    for (fault, message, has_begun) in [
        ("fallocate:error=EDQUOT", "cannot reserve space at ", false),
        ("pwrite64:error=EDQUOT:when=20+", "Disk quota exceeded", true),
        ("pwrite64:error=EIO:when=15+", "Input/output error", true),
        ("fdatasync:error=EIO", "cannot sync: Input/output error", true),
        ("fsync:error=EIO", "cannot sync: Input/output error", true),
        ("rename,renameat,renameat2,link,linkat:error=EIO", "cannot replace: Input/output error", true),
    ] {
        let ran = with_fault(&sandbox, fault);
        assert_eq!(ran.code, Some(1), "{fault}: {}", ran.stderr);
        assert!(ran.stderr.starts_with("error: ") && ran.stderr.contains(message), "{fault}: {}", ran.stderr);
        assert!(!sandbox.path("out/x.gguf").exists(), "{fault}");
        assert!(has_begun || sandbox.outputs().is_empty(), "{fault}: {:?}", sandbox.outputs());
        // Earlier work, if there is any, is used.
        let ran = sandbox.convert(&[&SLOW[..6], &["--resume"]].concat());
        assert_eq!(ran.code, Some(0), "{fault}: {}", ran.stderr);
        assert!(sandbox.read("out/x.gguf") == expected, "{fault}: other bytes");
        assert_eq!(sandbox.outputs(), ["x.gguf"], "{fault}");
        fs::remove_file(sandbox.path("out/x.gguf")).unwrap();
    }
}

#[test]
#[ignore = "needs root, mke2fs and strace"]
fn unreadable_source_is_named() {
    let sandbox = sandbox();
    let image = sandbox.path("image");
    let disk = Mount::of_image(sandbox.path("disk"), &image, "ext4", 24 << 20);
    for name in ["config.json", "tokenizer.model", "tokenizer_config.json", "model.safetensors"] {
        fs::copy(sandbox.path("tiny").join(name), sandbox.path("disk").join(name)).unwrap();
    }
    drop(disk);
    let _disk = Mount::new(sandbox.path("disk"), &["-o", "loop", image.to_str().unwrap()]);
    // Files in memory are not read again: the small files, and the header of the weights.
    for entry in fs::read_dir(sandbox.path("disk")).unwrap() {
        let mut first = Vec::new();
        let Ok(file) = fs::File::open(entry.unwrap().path()) else { continue };
        let _ = file.take(1 << 16).read_to_end(&mut first);
    }
    // From here on the disk has no sectors but its first. The loop device does not know.
    fs::File::options().write(true).open(&image).unwrap().set_len(1 << 20).unwrap();
    // Rows that are encoded are read by us, rows that are copied by the system.
    for dtype in ["iq3_s", "bf16"] {
        let ran = sandbox.convert(&["disk", "out/x.gguf", "-t", dtype, "-q"]);
        assert_eq!(ran.code, Some(1), "{dtype}: {}", ran.stderr);
        let line = ran.stderr.lines().next().unwrap();
        assert_eq!(line, "error: disk/model.safetensors: cannot be read: its disk failed", "{dtype}");
        assert!(sandbox.outputs().iter().all(|name| name.starts_with('.')), "{:?}", sandbox.outputs());
        sandbox.outputs().iter().for_each(|name| fs::remove_file(sandbox.path("out").join(name)).unwrap());
    }
}

#[test]
fn removed_folders_are_errors() {
    let sandbox = sandbox();
    let child = held_with_rows(&sandbox);
    fs::remove_dir_all(sandbox.path("out")).unwrap();
    let ran = go_on(child);
    ran.ends_and_begins(1, "error: out/x.gguf: cannot ");
    assert!(!sandbox.path("out").exists());

    fs::create_dir(sandbox.path("out")).unwrap();
    let child = held_with_rows(&sandbox);
    fs::rename(sandbox.path("tiny"), sandbox.path("away")).unwrap();
    let ran = go_on(child);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let line = "error: tiny/model.safetensors: changed while it was read: ";
    ran.begins(line);
    assert!(sandbox.outputs().is_empty(), "{:?}", sandbox.outputs());
}

#[test]
fn truncated_source_leaves_nothing_to_resume() {
    let sandbox = sandbox();
    let child = held_with_rows(&sandbox);
    fs::File::options()
        .write(true)
        .open(sandbox.path("tiny/model.safetensors"))
        .unwrap()
        .set_len(8192)
        .unwrap();
    let ran = go_on(child);
    ran.ends_and_begins(1, "error: tiny/model.safetensors: ");
    assert!(sandbox.outputs().is_empty(), "{:?}", sandbox.outputs());
}
