//! File names and size labels compared with the reference's tables (golden/MANIFEST).

use std::path::Path;

use gguf_container::{FileName, rounded_count, size_label};

fn rows(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/gguf").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(str::to_owned).collect()
}

#[test]
fn parsing_follows_specified_pattern() {
    let rows = rows("names.tsv");
    assert_eq!(rows.len(), 400);
    for row in rows {
        let (name, expected) = row.split_once('\t').unwrap();
        let parsed = FileName::parse(name);
        let found = parsed.as_ref().map_or("none".to_owned(), |parsed| {
            let shard = parsed.shard.map(|(no, count)| format!("{no:05}-of-{count:05}"));
            [
                Some(parsed.base_name.clone()),
                parsed.size_label.clone(),
                parsed.fine_tune.clone(),
                Some(parsed.version.clone()),
                parsed.encoding.clone(),
                parsed.kind.map(|kind| kind.name().to_owned()),
                shard,
            ]
            .map(Option::unwrap_or_default)
            .join("\t")
        });
        assert_eq!(found, expected, "{name}");
        if let Some(parsed) = parsed {
            assert_eq!(parsed.to_string(), name);
        }
    }
}

#[test]
fn size_labels_match_reference() {
    let mut n_experts = 0;
    for row in rows("size_labels.tsv") {
        let (counts, expected) = row.split_once('\t').unwrap();
        let counts: Vec<i64> = counts.split(',').map(|count| count.parse().unwrap()).collect();
        match counts[..] {
            [count] => assert_eq!(rounded_count(count as u64, 2), expected, "{count}"),
            [total, shared, expert, n] => {
                assert_eq!(size_label(total, shared, expert, n as u64), expected, "{counts:?}");
                n_experts += 1;
            }
            _ => panic!("{row}"),
        }
    }
    assert_eq!(n_experts, 5);
}
