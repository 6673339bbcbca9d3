//! Buckets of relative positions in T5.

#[path = "../../src/families/t5/graph/buckets.rs"]
mod table;

use table::buckets;

#[test]
fn distant_positions_share_buckets() {
    // The first distance of each bucket, by `T5Attention._relative_position_bucket` of
    // transformers 5.23 with 32 buckets.
    let both = buckets(32, true, 200);
    let first = |buckets: &[usize]| -> Vec<usize> {
        (0..200).filter(|i| *i == 0 || buckets[*i] != buckets[*i - 1]).collect()
    };
    assert_eq!(first(&both.before), BOTH);
    assert_eq!((both.before[199], both.after[1], both.after[199]), (15, 17, 31));
    assert_eq!(first(&buckets(32, false, 200).before), BEFORE);
}

const BOTH: &[usize] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91];
const BEFORE: &[usize] = &[
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77,
    87, 99, 113,
];
