//! Byte strings to ids, by prefixes.

/// No node, no id.
const NONE: u32 = u32::MAX;

struct Node {
    byte: u8,
    /// Id of the string that ends here.
    id: u32,
    first_child: u32,
    next_sibling: u32,
}

/// A trie. The children of a node are a list, which is short below the first byte.
pub(super) struct Trie {
    nodes: Vec<Node>,
    roots: [u32; 256],
}

impl Trie {
    pub(super) fn new() -> Self {
        Trie { nodes: Vec::new(), roots: [NONE; 256] }
    }

    /// Inserts a string; the last of equal strings wins. An empty string is ignored.
    pub(super) fn insert(&mut self, text: &[u8], id: u32) {
        // The first byte branches 256 ways in real vocabularies and has a table; deeper nodes have few
        // children and a list of siblings, which takes 16 bytes per node.
        let Some((&first, rest)) = text.split_first() else { return };
        let mut at = self.roots[usize::from(first)];
        if at == NONE {
            at = self.push(first, NONE);
            self.roots[usize::from(first)] = at;
        }
        for &byte in rest {
            at = self.child(at, byte).unwrap_or_else(|| {
                // Prepended, so that the end of the list is not searched.
                let sibling = self.nodes[at as usize].first_child;
                let new = self.push(byte, sibling);
                self.nodes[at as usize].first_child = new;
                new
            });
        }
        self.nodes[at as usize].id = id;
    }

    fn push(&mut self, byte: u8, next_sibling: u32) -> u32 {
        self.nodes.push(Node { byte, id: NONE, first_child: NONE, next_sibling });
        (self.nodes.len() - 1) as u32
    }

    fn child(&self, at: u32, byte: u8) -> Option<u32> {
        let mut child = self.nodes[at as usize].first_child;
        while child != NONE {
            let node = &self.nodes[child as usize];
            if node.byte == byte {
                return Some(child);
            }
            child = node.next_sibling;
        }
        None
    }

    /// Every string of the trie that is a prefix of the text, shortest first: length and id.
    pub(super) fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut at = text.first().map_or(NONE, |byte| self.roots[usize::from(*byte)]);
        let mut len = 0;
        std::iter::from_fn(move || {
            while at != NONE {
                let id = self.nodes[at as usize].id;
                len += 1;
                at = text.get(len).and_then(|byte| self.child(at, *byte)).unwrap_or(NONE);
                if id != NONE {
                    return Some((len, id));
                }
            }
            None
        })
    }

    /// Length of the text's longest prefix in the trie, whether or not a string ends there.
    pub(super) fn reach(&self, text: &[u8]) -> usize {
        let Some(first) = text.first() else { return 0 };
        let mut at = self.roots[usize::from(*first)];
        let mut len = 0;
        while at != NONE {
            len += 1;
            at = text.get(len).and_then(|byte| self.child(at, *byte)).unwrap_or(NONE);
        }
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_shortest_first() {
        let mut trie = Trie::new();
        for (id, text) in ["a", "abc", "b", "", "abc"].iter().enumerate() {
            trie.insert(text.as_bytes(), id as u32);
        }
        assert_eq!(trie.prefixes(b"abcd").collect::<Vec<_>>(), [(1, 0), (3, 4)]);
        assert_eq!(trie.prefixes(b"").count(), 0);
        assert_eq!(trie.prefixes(b"c").count(), 0);
        assert_eq!((trie.reach(b"abx"), trie.reach(b"x"), trie.reach(b"")), (2, 0, 0));
    }
}
