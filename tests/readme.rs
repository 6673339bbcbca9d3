//! The README's table of what is supported is the registries', word for word.
//! `BLESS=1 cargo test --test readme` writes it anew.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use arch::ARCHES;
use convert::recipes::RECIPES;
use source::FORMATS;

const START: &str = "<!-- table -->\n";
const END: &str = "<!-- /table -->";

fn joined<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

fn table() -> String {
    let mut out = String::from("| what | supported |\n|---|---|\n");
    let read = FORMATS.iter().filter(|format| format.is_read()).map(|format| format.name);
    let _ = writeln!(out, "| input | {} |", joined(read));
    let _ = writeln!(out, "| run by `gguf-eval` | {} |", joined(eval::architectures()));
    let recipes = RECIPES.iter().filter(|recipe| recipe.alias_of.is_none()).map(|recipe| recipe.name);
    let _ = writeln!(out, "| file types | {} |", joined(recipes));
    let mut dtypes: BTreeMap<bool, Vec<&str>> = BTreeMap::new();
    for codec in quant::CODECS {
        let both = codec.encode.is_some() && codec.dtype.is_encodable();
        dtypes.entry(both).or_default().push(codec.dtype.name());
    }
    for (both, names) in dtypes.into_iter().rev() {
        let _ = writeln!(
            out,
            "| dtypes {} | {} |",
            if both { "written and read" } else { "read" },
            joined(names)
        );
    }
    out.push_str("\n| architecture | classes | export with `--to hf` |\n|---|---|---|\n");
    for arch in ARCHES {
        let classes = arch.classes.iter().map(|class| class.name);
        let export = arch.export.obstacle().map_or("yes".to_owned(), |reason| format!("no: {reason}"));
        let _ = writeln!(out, "| `{}` | {} | {export} |", arch.name, joined(classes));
    }
    out
}

#[test]
fn the_table_is_printed_from_the_registries() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(START).expect("README.md has the start of the table");
    let (have, after) = rest.split_once(END).expect("README.md has the end of the table");
    let want = table();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, format!("{before}{START}{want}{END}{after}")).unwrap();
    } else {
        assert_eq!(have, want, "run `BLESS=1 cargo test --test readme`");
    }
}
