//! XML: what the service writes, and the one document that it reads, the list of parts of a completion.
//!
//! The reader takes elements, text, entities, comments and a declaration; no document type, no CDATA, no processing
//! instruction in between. Attributes are passed over. Pure.

/// `Content-Type` of every document.
pub(super) const TYPE: &str = "application/xml; charset=UTF-8";
/// The namespace of the answers that other stores' clients read as well.
const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A whole document.
pub(super) fn document(root: &str) -> String {
    format!("<?xml version='1.0' encoding='UTF-8'?>{root}")
}

/// A whole document whose root has the namespace.
pub(super) fn result(name: &str, content: &str) -> String {
    document(&format!("<{name} xmlns='{NAMESPACE}'>{content}</{name}>"))
}

/// An element around others.
pub(super) fn element(name: &str, content: &str) -> String {
    format!("<{name}>{content}</{name}>")
}

/// An element with text.
pub(super) fn leaf(name: &str, text: &str) -> String {
    element(name, &escaped(text))
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut safe, letter| {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
        safe
    })
}

/// Part numbers and ETags (without quotes) of a `CompleteMultipartUpload`, in its order.
pub(super) fn parts(text: &str) -> Result<Vec<(u16, String)>, &'static str> {
    let root = parsed(text)?;
    if root.name != "CompleteMultipartUpload" {
        return Err("The root is no CompleteMultipartUpload.");
    }
    let part = |node: Node| {
        let child = |name: &str| node.children.iter().find(|child| child.name == name);
        let number = child("PartNumber").and_then(|node| node.text.trim().parse().ok());
        let etag = child("ETag").map(|node| node.text.trim().trim_matches('"').to_owned());
        if node.name != "Part" {
            return Err("An element that is no Part.");
        }
        number.zip(etag).ok_or("A Part without PartNumber or ETag.")
    };
    root.children.into_iter().map(part).collect()
}

#[derive(Debug, Default)]
struct Node {
    name: String,
    text: String,
    children: Vec<Node>,
}

fn parsed(text: &str) -> Result<Node, &'static str> {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    if let Some(declaration) = rest.strip_prefix("<?xml") {
        rest = declaration.split_once("?>").ok_or("A declaration without end.")?.1;
    }
    let mut open = vec![Node::default()];
    while let Some((text, tag)) = rest.split_once('<') {
        open.last_mut().ok_or("Closed too often.")?.text.push_str(&plain(text)?);
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").ok_or("A comment without end.")?.1;
            continue;
        }
        let (tag, after) = tag.split_once('>').ok_or("A tag without end.")?;
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let node =
                open.pop().filter(|node| node.name == local(name)).ok_or("A tag that closes another.")?;
            open.last_mut().ok_or("Closed too often.")?.children.push(node);
            continue;
        }
        if tag.starts_with(['!', '?']) {
            return Err("A document type or an instruction.");
        }
        let (body, empty) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let name = local(body.split_whitespace().next().ok_or("A tag without name.")?);
        let node = Node { name: name.to_owned(), ..Node::default() };
        if empty {
            open.last_mut().ok_or("Closed too often.")?.children.push(node);
        } else {
            open.push(node);
        }
    }
    let [document] = open.as_mut_slice() else { return Err("An element without end.") };
    if !rest.trim().is_empty() || !document.text.trim().is_empty() || document.children.len() != 1 {
        return Err("Not one element.");
    }
    document.children.pop().ok_or("No element.")
}

/// A name without its prefix.
fn local(name: &str) -> &str {
    let name = name.trim();
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

fn plain(text: &str) -> Result<String, &'static str> {
    let mut pieces = text.split('&');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (entity, after) = piece.split_once(';').ok_or("An entity without end.")?;
        let number = |text: &str, radix| u32::from_str_radix(text, radix).ok().and_then(char::from_u32);
        let letter = match (entity, entity.strip_prefix("#x"), entity.strip_prefix('#')) {
            ("amp", ..) => Some('&'),
            ("lt", ..) => Some('<'),
            ("gt", ..) => Some('>'),
            ("quot", ..) => Some('"'),
            ("apos", ..) => Some('\''),
            (_, Some(hex), _) => number(hex, 16),
            (_, _, Some(decimal)) => number(decimal, 10),
            _ => None,
        };
        plain.push(letter.ok_or("An unknown entity.")?);
        plain.push_str(after);
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_parts_is_read_as_clients_write_it() {
        let python = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>\
                      <Part><PartNumber>2</PartNumber><ETag>&quot;b&quot;</ETag></Part></CompleteMultipartUpload>";
        let two = vec![(1, "a".to_owned()), (2, "b".to_owned())];
        assert_eq!(parts(python), Ok(two.clone()));
        let spaced = "<?xml version=\"1.0\"?>\n<!-- two -->\n<s:CompleteMultipartUpload xmlns:s=\"x\">\n <s:Part>\
                      <s:ETag>&#34;a&#x22;</s:ETag> <s:PartNumber> 1 </s:PartNumber></s:Part>\n\
                      <s:Part><s:ETag>b</s:ETag><s:PartNumber>2</s:PartNumber></s:Part></s:CompleteMultipartUpload>\n";
        assert_eq!(parts(spaced), Ok(two));
        assert_eq!(parts("<CompleteMultipartUpload/>"), Ok(vec![]));
    }

    #[test]
    fn what_is_no_list_of_parts_is_refused() {
        for bad in [
            "",
            "text",
            "<Part/>",
            "<CompleteMultipartUpload>",
            "<CompleteMultipartUpload></Part>",
            "<CompleteMultipartUpload/><CompleteMultipartUpload/>",
            "<CompleteMultipartUpload><Part><PartNumber>x</PartNumber><ETag>a</ETag></Part></CompleteMultipartUpload>",
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>",
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>&x;</ETag></Part></CompleteMultipartUpload>",
            "<!DOCTYPE a><CompleteMultipartUpload/>",
            "<CompleteMultipartUpload/>text",
        ] {
            assert!(parts(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let hostile = "<&'\">\u{e9}";
        assert_eq!(parsed(&document(&leaf("Key", hostile))).map(|node| node.text), Ok(hostile.to_owned()));
    }
}
