//! Outputs that are finished, dropped, claimed, and found.

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn only_finish_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let output = Output::create(&path, 100_000, false).unwrap();
    assert_eq!(fs::metadata(output.temporary_path()).unwrap().len(), 100_000);
    assert!(!names(folder.path()).iter().any(|name| name.ends_with(".gguf")));
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let output = &output;
            scope.spawn(move || {
                for i in (0..99).filter(|i| i % 4 == u64::from(thread)) {
                    output.write_at(i * 1000, &[i as u8; 1000]).unwrap();
                }
            });
        }
    });
    output.finish().unwrap();
    assert_eq!(names(folder.path()), ["model.gguf"]);
    let expected: Vec<u8> = (0..100_000).map(|i| if i < 99_000 { (i / 1000) as u8 } else { 0 }).collect();
    assert!(fs::read(&path).unwrap() == expected);
}

#[test]
fn dropped_output_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let output = Output::create(&folder.path().join("x.gguf"), 10, false).unwrap();
    output.write_at(0, b"abc").unwrap();
    drop(output);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn existing_file_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    let early = Output::create(&path, 3, false).unwrap();
    fs::write(&path, "old").unwrap();
    assert!(matches!(Output::create(&path, 3, false), Err(Error::Exists { .. })));
    early.write_at(0, b"new").unwrap();
    assert!(matches!(early.finish(), Err(Error::Exists { .. })));
    assert_eq!(names(folder.path()), ["x.gguf"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let output = Output::create(&path, 3, true).unwrap();
    output.write_at(0, b"new").unwrap();
    output.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["x.gguf"]);
}

#[test]
#[cfg(unix)]
fn links_are_followed_to_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("elsewhere")).unwrap();
    fs::write(path("elsewhere/file"), "old").unwrap();
    std::os::unix::fs::symlink("elsewhere/file", path("link")).unwrap();
    std::os::unix::fs::symlink("nothing", path("dead")).unwrap();
    std::os::unix::fs::symlink("elsewhere", path("folder")).unwrap();
    let whole = |name: &str, force| Output::write_whole(&path(name), b"new", force);
    assert!(matches!(whole("link", false), Err(Error::Exists { .. })));
    whole("link", true).unwrap();
    assert!(fs::symlink_metadata(path("link")).unwrap().is_symlink());
    assert_eq!(fs::read(path("elsewhere/file")).unwrap(), b"new");
    for force in [false, true] {
        let dead = whole("dead", force);
        assert!(matches!(dead, Err(Error::DeadLink { target, .. }) if target == Path::new("nothing")));
        assert!(matches!(whole("folder", force), Err(Error::NotAFile { .. })));
        for device in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "/dev/none"] {
            let refused = Output::write_whole(Path::new(device), b"new", force);
            assert!(matches!(refused, Err(Error::NotAFile { .. })), "{device}");
        }
    }
    assert_eq!(names(folder.path()), ["dead", "elsewhere", "folder", "link"]);
}

#[test]
#[cfg(unix)]
fn leftovers_of_dead_processes_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let (dead, own) = (child.id(), std::process::id());
    for name in [
        format!(".{dead}-0.x.gguf.partial"),
        format!(".{dead}-12.x.gguf.partial"),
        format!(".{dead}-0.y.gguf.partial"),
        format!(".{own}-0.x.gguf.partial"),
        ".x-0.x.gguf.partial".to_owned(),
        format!(".{dead}-0.x.gguf"),
    ] {
        fs::write(path(&name), "left").unwrap();
    }
    let found = Output::leftovers(&path("x.gguf"));
    let paths: Vec<&Path> = found.iter().map(|left| left.path.as_path()).collect();
    assert_eq!(
        paths,
        [path(&format!(".{dead}-0.x.gguf.partial")), path(&format!(".{dead}-12.x.gguf.partial"))]
    );
    assert!(found.iter().all(|left| left.n_bytes == 4 && left.age.is_some()));
    assert!(Output::leftovers(&path("none/x.gguf")).is_empty());
}

#[test]
fn final_rename_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::write(&from, "from").unwrap();
    fs::write(&to, "to").unwrap();
    let error = rename_without_replacing(&from, &to).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&to).unwrap(), b"to");
    fs::remove_file(&to).unwrap();
    rename_without_replacing(&from, &to).unwrap();
    assert_eq!(names(folder.path()), ["to"]);
}

#[test]
fn unwritable_outputs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for force in [false, true] {
        assert!(matches!(Output::create(folder.path(), 1, force), Err(Error::NotAFile { .. })));
        assert!(matches!(Output::create(Path::new(".."), 1, force), Err(Error::NotAFile { .. })));
        assert!(matches!(Output::create(Path::new("/"), 1, force), Err(Error::NotAFile { .. })));
    }
    let nowhere = folder.path().join("none").join("x.gguf");
    assert!(matches!(Output::create(&nowhere, 1, false), Err(Error::Io { action: "create", .. })));
    let long = folder.path().join("ä".repeat(125));
    Output::create(&long, 1, false).unwrap().finish().unwrap();
    assert_eq!(fs::metadata(&long).unwrap().len(), 1);

    let path = folder.path().join("x.gguf");
    let output = Output::create(&path, 10, false).unwrap();
    for (offset, len) in [(0, 11), (10, 1), (u64::MAX, 1), (u64::MAX, 0)] {
        let result = output.write_at(offset, &vec![0; len]);
        assert!(matches!(result, Err(Error::WriteOutOfRange { .. })), "{offset} {len}");
    }
    output.write_at(10, &[]).unwrap();
    fs::File::options().write(true).open(output.temporary_path()).unwrap().set_len(9).unwrap();
    assert!(matches!(output.finish(), Err(Error::Length { expected: 10, found: 9, .. })));
    assert!(!path.exists());
}

#[test]
#[cfg(target_os = "linux")]
fn missing_space_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    let Err(error) = Output::create(&path, i64::MAX as u64, false) else { panic!("8 EiB reserved") };
    let needs_all = |needed: u64, free: u64| needed == i64::MAX as u64 && free < needed;
    assert!(matches!(error, Error::NoSpace { needed, free, .. } if needs_all(needed, free)), "{error}");
    assert!(names(folder.path()).is_empty());
}

#[test]
fn claimed_output_stays_until_finished_or_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    let claim = |claim| Output::claim(&path, 3, false, claim);
    let output = claim(Claim::Anew).unwrap();
    output.write_at(0, b"one").unwrap();
    // Two at once: the second fails.
    for second in [Claim::Anew, Claim::GoOn, Claim::Parts] {
        assert!(matches!(claim(second), Err(Error::Busy { .. })));
    }
    drop(output);
    assert_eq!(names(folder.path()), [".x.gguf.partial"]);
    let output = claim(Claim::GoOn).unwrap();
    let mut found = [0; 3];
    output.read_at(0, &mut found).unwrap();
    assert_eq!(&found, b"one");
    drop(output);
    let output = claim(Claim::Anew).unwrap();
    output.read_at(0, &mut found).unwrap();
    assert_eq!(found, [0; 3]);
    drop(output);
    let parts = [claim(Claim::Parts).unwrap(), claim(Claim::Parts).unwrap()];
    parts[1].write_at(0, b"two").unwrap();
    drop(parts);
    claim(Claim::GoOn).unwrap().finish().unwrap();
    assert_eq!(names(folder.path()), ["x.gguf"]);
    assert_eq!(fs::read(&path).unwrap(), b"two");
    assert!(matches!(claim(Claim::GoOn), Err(Error::Exists { .. })));
    Output::claim(&path, 3, true, Claim::Anew).unwrap().discard();
    assert_eq!(names(folder.path()), ["x.gguf"]);

    let placed = Output::in_place(&path, 3).unwrap();
    assert!(placed.is_in_place());
    placed.finish().unwrap();
    assert!(matches!(Output::in_place(&path, 4), Err(Error::Length { found: 3, .. })));
    assert_eq!(fs::read(&path).unwrap(), b"two");
}

#[test]
fn lock_ends_with_output_despite_child() {
    let folder = tempfile::tempdir().unwrap();
    let claim = || Output::claim(&folder.path().join("x.gguf"), 3, false, Claim::GoOn);
    let output = claim().unwrap();
    // A second descriptor of the open file, like in a child between `fork` and `exec`.
    let child_file = output.file.try_clone().unwrap();
    drop(output);
    claim().unwrap();
    drop(child_file);
}

#[test]
fn final_name_can_be_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    let mut output = Output::claim(&path, 3, false, Claim::Anew).unwrap();
    output.prepare().unwrap();
    output.place().unwrap();
    assert_eq!(names(folder.path()), ["x.gguf"]);
    output.withdraw();
    drop(output);
    assert_eq!(names(folder.path()), [".x.gguf.partial"]);
    // A file that was replaced cannot be restored.
    fs::write(&path, "old").unwrap();
    let mut output = Output::claim(&path, 3, true, Claim::GoOn).unwrap();
    output.place().unwrap();
    output.withdraw();
    assert!(output.is_in_place());
    assert_eq!(names(folder.path()), ["x.gguf"]);
}

#[test]
#[cfg(unix)]
fn link_at_temporary_name_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gguf");
    fs::write(folder.path().join("other"), "mine").unwrap();
    std::os::unix::fs::symlink("other", Output::temporary_path_of(&path)).unwrap();
    assert!(matches!(Output::claim(&path, 3, false, Claim::Anew), Err(Error::NotAFile { .. })));
    assert_eq!(fs::read(folder.path().join("other")).unwrap(), b"mine");
}

#[test]
fn hidden_names_of_long_names_differ() {
    let (one, two) = (format!("{}1", "a".repeat(200)), format!("{}2", "a".repeat(200)));
    let hidden = |name: &str| hidden_path(Path::new(name), "partial");
    assert_ne!(hidden(&one), hidden(&two));
    assert!(hidden(&one).to_str().unwrap().len() < 255);
    assert_eq!(hidden("x.gguf"), Path::new(".x.gguf.partial"));
}

#[test]
#[cfg(unix)]
fn files_on_one_disk_share_its_space() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let Err(Error::NoSpace { needed, free, .. }) = check_space(&[(&one, 1 << 62)]) else { panic!("4 EiB") };
    assert_eq!(needed, 1 << 62);
    // Another process may write meanwhile, but not that much.
    let most = free / 10 * 7;
    check_space(&[(&one, most)]).unwrap();
    assert!(matches!(check_space(&[(&one, most), (&two, most)]), Err(Error::NoSpace { .. })));
    check_space(&[]).unwrap();
}
