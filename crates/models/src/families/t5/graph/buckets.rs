//! Buckets of relative positions.

/// Bucket of each distance: for keys at or before the query, and for keys after it.
pub struct Buckets {
    pub before: Vec<usize>,
    pub after: Vec<usize>,
}

/// Buckets of all distances below `end`. Where both directions are seen, each has half.
pub fn buckets(n_buckets: usize, both: bool, end: usize) -> Buckets {
    /// From here on all distances are in the last bucket, in every T5.
    const FAR: f32 = 128.0;
    let n = if both { n_buckets / 2 } else { n_buckets };
    let n_near = n / 2;
    // Half of the buckets are for one distance each, the rest grow with the logarithm.
    let bucket = |distance: usize| {
        if distance < n_near {
            return distance;
        }
        // In the order of operations, and in the precision, of transformers.
        let log_share = libm::logf(distance as f32 / n_near as f32) / libm::logf(FAR / n_near as f32)
            * (n - n_near) as f32;
        n_near.saturating_add(log_share as usize).min(n - 1)
    };
    let before: Vec<usize> = (0..end).map(bucket).collect();
    let after = before.iter().map(|bucket| if both { n + bucket } else { 0 }).collect();
    Buckets { before, after }
}
