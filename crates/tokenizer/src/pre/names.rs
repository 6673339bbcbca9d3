//! Names of pre-tokenizers that llama.cpp loads.

/// Number of suggestions for an unknown name.
const OFFERED: usize = 3;

/// Names of `tokenizer.ggml.pre` that llama.cpp accepts, in its order.
pub fn names() -> impl Iterator<Item = &'static str> {
    include_str!("names.txt").lines().filter(|line| !line.starts_with('#'))
}

/// Known names most similar to an unknown one, nearest first.
pub(crate) fn nearest(name: &str) -> Vec<&'static str> {
    let name: String = name.to_lowercase().chars().take(100).collect();
    let mut nearest: Vec<&'static str> = names().collect();
    nearest.sort_by_cached_key(|known| (strsim::levenshtein(known, &name), *known));
    nearest.truncate(OFFERED);
    nearest
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn nearest_names_come_first() {
        assert_eq!(nearest("qwen-2")[0], "qwen2");
        assert_eq!(nearest("LLAMA-BPE")[0], "llama-bpe");
    }
}
