//! Pages of lists, newest first.

use restante_core::id::Key;

/// Which page of a list is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// 1 to 100.
    pub limit: usize,
    pub start: Start,
    /// Whether the caller wants to know how many there are in all.
    pub total: bool,
}

/// Where a page starts. Keys are those of the items, so a page stays put while newer items come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    Newest,
    /// Behind this item, towards older ones.
    After(Key),
    /// Before this item, towards newer ones: the page that ends just before it.
    Before(Key),
}

/// One page of a list, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Paged<T> {
    pub items: Vec<T>,
    /// Go on behind this for older items; `None`: there are none.
    pub next: Option<Key>,
    /// Go before this for newer items; `None`: this is the newest page.
    pub prev: Option<Key>,
    /// How many there are in all, if asked and if that is no more than a read may count.
    pub total: Option<u64>,
}

impl Page {
    /// The first page.
    pub const fn newest(limit: usize) -> Self {
        Self { limit, start: Start::Newest, total: false }
    }
}

impl<T> Paged<T> {
    /// Cuts a page out of up to `limit + 1` items that were read in the page's own direction (towards older ones,
    /// or for [`Start::Before`] towards newer ones).
    pub fn cut(mut items: Vec<T>, page: Page, key: impl Fn(&T) -> Key) -> Self {
        let more = items.len() > page.limit;
        items.truncate(page.limit);
        let backward = matches!(page.start, Start::Before(_));
        if backward {
            items.reverse();
        }
        let (first, last) = (items.first().map(&key), items.last().map(&key));
        let (next, prev) = match page.start {
            Start::Newest => (last.filter(|_| more), None),
            Start::After(_) => (last.filter(|_| more), first),
            Start::Before(_) => (last, first.filter(|_| more)),
        };
        Self { items, next, prev, total: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(keys: &[i64], start: Start) -> (Vec<i64>, Option<i64>, Option<i64>) {
        let page = Page { limit: 2, start, total: false };
        let paged = Paged::cut(keys.to_vec(), page, |key| Key::from_value(*key));
        (paged.items, paged.next.map(Key::value), paged.prev.map(Key::value))
    }

    #[test]
    fn pages_of_two() {
        let key = Key::from_value;
        assert_eq!(cut(&[9, 8, 7], Start::Newest), (vec![9, 8], Some(8), None));
        assert_eq!(cut(&[9, 8], Start::Newest), (vec![9, 8], None, None));
        assert_eq!(cut(&[7, 6, 5], Start::After(key(8))), (vec![7, 6], Some(6), Some(7)));
        assert_eq!(cut(&[5], Start::After(key(6))), (vec![5], None, Some(5)));
        assert_eq!(cut(&[6, 7, 8], Start::Before(key(5))), (vec![7, 6], Some(6), Some(7)));
        assert_eq!(cut(&[8, 9], Start::Before(key(7))), (vec![9, 8], Some(8), None));
    }
}
