//! Lays one piece of TOML over another, so that a test can change a key of a section that is there already.
//!
//! Pure and plain: sections and `key = value` on one line each, which is all a stage's configuration has.

/// `base` with the keys of `extra`: a section both have stays one, a key both set has `extra`'s value.
pub(super) fn overlay(base: &str, extra: &str) -> String {
    let mut sections = read(base);
    for (name, lines) in read(extra) {
        let Some((_, known)) = sections.iter_mut().find(|(known, _)| *known == name) else {
            sections.push((name, lines));
            continue;
        };
        for line in lines {
            match known.iter_mut().find(|there| key(there).is_some() && key(there) == key(line)) {
                Some(there) => *there = line,
                None => known.push(line),
            }
        }
    }
    let mut out = String::new();
    for (name, lines) in sections {
        if !name.is_empty() {
            out.push_str(&format!("[{name}]\n"));
        }
        lines.iter().for_each(|line| out.push_str(&format!("{line}\n")));
        out.push('\n');
    }
    out
}

/// Sections in their order, each with its lines that are not empty; what comes before the first has no name.
fn read(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut sections = vec![("", Vec::new())];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(name) => sections.push((name, Vec::new())),
            None => {
                if let Some((_, lines)) = sections.last_mut() {
                    lines.push(line);
                }
            }
        }
    }
    sections
}

fn key(line: &str) -> Option<&str> {
    line.split_once('=').map(|(key, _)| key.trim())
}

#[cfg(test)]
mod tests {
    use super::overlay;

    #[test]
    fn keys_are_replaced_added_and_kept() {
        let laid = overlay("[a]\nx = 1\ny = 2\n\n[b]\nz = \"[c]\"\n", "[a]\ny = 3\nw = 4\n[c]\nv = 5\n");
        assert_eq!(laid.trim(), "[a]\nx = 1\ny = 3\nw = 4\n\n[b]\nz = \"[c]\"\n\n[c]\nv = 5");
    }
}
