//! A family of models: its rows in the tables of architectures and projectors.

use crate::arch::{Arch, DECODER};
use crate::projector::{BASE, Projector};
use crate::quantization::Quantization;

/// The rows of a family.
pub struct Family {
    /// Its architectures.
    pub arches: &'static [Arch],
    /// Its projectors.
    pub projectors: &'static [Projector],
    /// Facts of architectures that are quantized differently from others. They are not part of a row, because rows that are
    /// derived from one would have them too.
    pub quantization: &'static [Quantization],
}

impl Family {
    /// A family without rows.
    pub const EMPTY: Family = Family { arches: &[], projectors: &[], quantization: &[] };
}

/// Defines functions that collect the rows of families: their number, and the rows sorted by name.
macro_rules! collected {
    ($number:ident, $rows:ident, $field:ident, $row:ty, $empty:expr) => {
        /// Number of rows of all families.
        pub const fn $number(families: &[Family]) -> usize {
            let (mut n, mut at) = (0, 0);
            while at < families.len() {
                n += families[at].$field.len();
                at += 1;
            }
            n
        }

        /// Rows of all families, sorted by name.
        pub const fn $rows<const N: usize>(families: &[Family]) -> [$row; N] {
            let mut rows = [$empty; N];
            let (mut n, mut at) = (0, 0);
            while at < families.len() {
                let mut inner = 0;
                while inner < families[at].$field.len() {
                    let row = families[at].$field[inner];
                    let mut place = n;
                    while place > 0 && is_less(row.name, rows[place - 1].name) {
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

collected!(n_arches, arches, arches, Arch, DECODER);
collected!(n_projectors, projectors, projectors, Projector, BASE);

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
