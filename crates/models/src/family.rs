//! A family of models: its rows for each engine.

use gguf_checkpoint::FamilyForm;
use gguf_layout::projector::{self, Projector};
use gguf_layout::{Arch, DECODER, Departure, Families, ForeignFormat, Quantization, Wrapper};

use gguf_runtime::graphs::{DraftKind, Spec, audio::EncoderKind, vision::ProjectorKind};
use gguf_runtime::{Architecture, Graphs};

use crate::diffusion;
use crate::families::FOLDERS;

/// The rows of a family.
pub struct Family {
    /// Its architectures.
    pub arches: &'static [Arch],
    /// Its projectors.
    pub projectors: &'static [Projector],
    /// Facts of architectures that are quantized differently from others. They are not part of a row, because rows that are
    /// derived from one would have them too.
    pub quantization: &'static [Quantization],
    /// Its differences from the reference's converter.
    pub departures: &'static [Departure],
    /// Its models of several kinds whose config class in transformers 5.23 takes any text part.
    pub wrappers: &'static [Wrapper],
    /// Forms in which programs other than transformers save their weights.
    pub forms: &'static [FamilyForm],
    /// Formats other than GGUF that its models can be written in.
    pub foreign: &'static [ForeignFormat],
    /// Architectures that can be run.
    pub graphs: &'static [Architecture],
    /// Projectors that can be run.
    pub towers: &'static [ProjectorKind],
    /// Draft models that can be run next to their targets.
    pub drafts: &'static [DraftKind],
    /// Audio encoders that can be run.
    pub encoders: &'static [EncoderKind],
}

impl Family {
    /// A family without rows.
    pub const EMPTY: Family = Family {
        arches: &[],
        projectors: &[],
        quantization: &[],
        departures: &[],
        wrappers: &[],
        forms: &[],
        foreign: &[],
        graphs: &[],
        towers: &[],
        drafts: &[],
        encoders: &[],
    };
}

/// Every supported architecture, sorted by name.
pub static ARCHES: &[Arch] = collected!(arches, name, DECODER);

/// Every family of projectors, sorted by name.
pub static PROJECTORS: &[Projector] = collected!(projectors, name, projector::BASE);

/// The rows of every family, for the functions of `gguf-layout` and `gguf-conversion`.
///
/// ```
/// use gguf_layout::Quantization;
/// use gguf_models::FAMILIES;
///
/// assert_eq!(FAMILIES.quantization("llama").layers_of_70b, Some(80));
/// assert_eq!(*FAMILIES.quantization("unknown"), Quantization::USUAL);
///
/// let names = ["double_blocks.0.img_attn.proj.weight"];
/// let found = FAMILIES.detect_diffusion(|name| names.contains(&name).then_some(1)).unwrap();
/// assert_eq!((found.row.name.as_str(), found.refused), ("flux", None));
/// ```
pub static FAMILIES: Families = Families {
    arches: ARCHES,
    projectors: PROJECTORS,
    quantization: collected!(quantization, architecture, Quantization::USUAL),
    diffusion: &diffusion::BUILT_IN,
    wrappers: collected!(wrappers, model_type, Wrapper { model_type: "", usual_text: "" }),
    loader: include_str!("loader.txt"),
    graph: include_str!("graph.txt"),
    foreign: collected!(foreign, name, ForeignFormat::NONE),
};

/// Forms in which programs other than transformers save weights, for [`gguf_checkpoint::Folder::forms`].
pub static FORMS: &[FamilyForm] = collected!(forms, model_types[0], FamilyForm::USUAL);

/// Every difference from the reference's converter in the rows of families, sorted by key.
pub static DEPARTURES: &[Departure] = collected!(departures, subject, Departure::NONE);

/// Every graph, for [`gguf_runtime::Options`].
pub static GRAPHS: Graphs = Graphs {
    architectures: collected!(graphs, name, Architecture::decoder("", Spec::DECODER)),
    projectors: collected!(
        towers,
        name,
        ProjectorKind { name: "", open: |keys, _, _| Err(keys.missing("projector_type")) }
    ),
    drafts: collected!(
        drafts,
        name,
        DraftKind { name: "", open: |keys, _, _| Err(keys.missing("target_layers")) }
    ),
    encoders: collected!(
        encoders,
        name,
        EncoderKind { name: "", open: |keys, _, _| Err(keys.missing("projector_type")) }
    ),
};

/// The rows of all families in one of their fields, sorted by name.
macro_rules! collected {
    ($field:ident, $name:ident $([$at:literal])?, $empty:expr) => {
        &{
            const N: usize = {
                let (mut n, mut at) = (0, 0);
                while at < FOLDERS.len() {
                    n += FOLDERS[at].$field.len();
                    at += 1;
                }
                n
            };
            let mut rows = [$empty; N];
            let (mut n, mut at) = (0, 0);
            while at < FOLDERS.len() {
                let mut inner = 0;
                while inner < FOLDERS[at].$field.len() {
                    let row = FOLDERS[at].$field[inner];
                    let mut place = n;
                    while place > 0 && is_less(row.$name $([$at])?, rows[place - 1].$name $([$at])?) {
                        rows[place] = rows[place - 1];
                        place -= 1;
                    }
                    rows[place] = row;
                    (n, inner) = (n + 1, inner + 1);
                }
                at += 1;
            }
            rows
        }
    };
}
use collected;

/// Order of names by their bytes.
const fn is_less(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return a[at] < b[at];
        }
        at += 1;
    }
    a.len() < b.len()
}
