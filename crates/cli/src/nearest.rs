//! Did you mean.

/// The known name that differs least, if it is close: a third of its letters may.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, nearest) = known.into_iter().map(|known| (distance(name, known), known)).min()?;
    let letters = name.chars().count().max(nearest.chars().count());
    (distance <= (letters / 3).max(1)).then_some(nearest)
}

/// The known names, those that differ least first.
pub(crate) fn by_nearness<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known: Vec<&str> = known.into_iter().collect();
    known.sort_by_cached_key(|known| distance(name, known));
    known
}

fn distance(name: &str, known: &str) -> usize {
    strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_close_is_meant() {
        let known = ["stripe-live", "github", "shop"];
        let table = [
            ("stripe-live", Some("stripe-live")),
            ("stripe_live", Some("stripe-live")),
            ("gihtub", Some("github")),
            ("GitHub", Some("github")),
            ("shpo", Some("shop")),
            ("slack", None),
            ("x", None),
        ];
        for (name, expected) in table {
            assert_eq!(nearest(name, known), expected, "{name}");
        }
        assert_eq!(nearest("a", []), None);
    }
}
