//! Slurm's lists of names: `node[01-16,20],login1`.

/// Digits of a number in a range.
const DIGITS_MAX: usize = 9;

/// The names of a list, no more than `names_max`; nothing if the list is malformed or longer.
pub(super) fn expand(list: &str, names_max: usize) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for item in items(list)? {
        expand_item(item, names_max, &mut names)?;
    }
    Some(names)
}

/// What stands between the commas that are in no brackets.
fn items(list: &str) -> Option<Vec<&str>> {
    let mut is_inside = false;
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, character) in list.char_indices() {
        match (character, is_inside) {
            ('[', false) => is_inside = true,
            (']', true) => is_inside = false,
            ('[', true) | (']', false) => return None,
            (',', false) => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    let parts: Vec<&str> = parts.into_iter().map(str::trim).collect();
    (!is_inside && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

fn expand_item(item: &str, names_max: usize, names: &mut Vec<String>) -> Option<()> {
    // Several brackets: each name of the first ones with each range of the last.
    let mut heads = vec![String::new()];
    let mut rest = item;
    while let Some((before, behind)) = rest.split_once('[') {
        let (ranges, behind) = behind.split_once(']')?;
        let mut longer = Vec::new();
        for head in &heads {
            for range in ranges.split(',') {
                for number in numbers(range.trim(), names_max)? {
                    if longer.len() + names.len() >= names_max {
                        return None;
                    }
                    longer.push(format!("{head}{before}{number}"));
                }
            }
        }
        (heads, rest) = (longer, behind);
    }
    if heads.len() + names.len() > names_max {
        return None;
    }
    names.extend(heads.into_iter().map(|head| head + rest));
    Some(())
}

/// `08-11`: 08, 09, 10, 11, as wide as the first is written.
fn numbers(range: &str, names_max: usize) -> Option<impl Iterator<Item = String>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let width = first.len();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(first) || !is_number(last) || width > DIGITS_MAX || last.len() > DIGITS_MAX {
        return None;
    }
    let [first, last] = [first, last].map(|text| text.parse::<usize>().ok());
    let (first, last) = (first?, last?);
    let is_bounded = first <= last && last - first < names_max;
    is_bounded.then(|| (first..=last).map(move |number| format!("{number:0width$}")))
}

/// What names are sorted by: what stands before the number at their end, and that number.
pub(super) fn natural(name: &str) -> (String, u64, String) {
    let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[head.len()..].parse().unwrap_or(0);
    (head.to_owned(), number, name.to_owned())
}

/// The names as a list, neighbours that differ in their last number only joined to a range.
pub(super) fn contract(names: &[String]) -> String {
    let split = |name: &String| {
        let head = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let (head, digits) = name.split_at(head.len());
        match digits.len() {
            1..=DIGITS_MAX => (head.to_owned(), digits.to_owned()),
            _ => (name.clone(), String::new()),
        }
    };
    let mut runs: Vec<(String, Vec<String>)> = Vec::new();
    for (head, digits) in names.iter().map(split) {
        match runs.last_mut() {
            Some((last, numbers))
                if *last == head && !digits.is_empty() && !numbers[0].is_empty() =>
            {
                numbers.push(digits);
            }
            _ => runs.push((head, vec![digits])),
        }
    }
    let items: Vec<String> = runs
        .into_iter()
        .map(|(head, numbers)| match &numbers[..] {
            [one] => head + one,
            _ => format!("{head}[{}]", ranges(&numbers)),
        })
        .collect();
    items.join(",")
}

/// Numbers as ranges; those of different widths or too long ones stand alone.
fn ranges(numbers: &[String]) -> String {
    let follows = |a: &String, b: &String| {
        let [a_number, b_number] = [a, b].map(|text| text.parse::<u32>().ok());
        let is_padded = |text: &String| text.starts_with('0') && text.len() > 1;
        let is_alike = a.len() == b.len() || !(is_padded(a) || is_padded(b));
        is_alike
            && a_number
                .zip(b_number)
                .is_some_and(|(a, b)| a.checked_add(1) == Some(b))
    };
    let runs = numbers.chunk_by(follows).map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.join(","),
    });
    runs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_expand_as_slurm_expands_them() {
        let all = |list: &str| expand(list, 100).map(|names| names.join(" "));
        assert_eq!(all("a[1-3,7],b").unwrap(), "a1 a2 a3 a7 b");
        assert_eq!(all("n[08-11]x").unwrap(), "n08x n09x n10x n11x");
        assert_eq!(all("r[1-2]n[1-2]").unwrap(), "r1n1 r1n2 r2n1 r2n2");
        for bad in [
            "",
            "a,,b",
            "a[1-3",
            "a]",
            "a[3-1]",
            "a[x]",
            "a[1-999999999]",
            "a[0-99],b",
        ] {
            assert_eq!(all(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_contracted_expands_again(
            names in prop::collection::vec("[a-z]{1,2}[0-9]{0,3}", 1..30)
        ) {
            prop_assert_eq!(expand(&contract(&names), 100).unwrap(), names);
        }

        #[test]
        fn no_list_makes_it_panic(list in "[a-z0-9,\\[\\]-]{0,30}") {
            let _ = expand(&list, 50);
        }
    }
}
