//! A page as a parser sees it that knows nothing of how it was written.

use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// One element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) tag: String,
    /// Name and value.
    pub(crate) attributes: Vec<(String, String)>,
    /// Text below it, of all depths.
    pub(crate) text: String,
    /// Tags of the elements around it, the innermost last.
    pub(crate) within: Vec<String>,
}

impl Element {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.get("class").is_some_and(|all| all.split(' ').any(|one| one == class))
    }
}

/// The elements of a page in their order, and what the parser had to forgive.
pub(crate) fn parse(html: &str) -> (Vec<Element>, Vec<String>) {
    let dom: RcDom = parse_document(RcDom::default(), ParseOpts::default()).one(html);
    let mut all = Vec::new();
    walk(&dom.document, &mut Vec::new(), &mut all);
    let errors = dom.errors.borrow().iter().map(ToString::to_string).collect();
    (all, errors)
}

fn walk(node: &Handle, within: &mut Vec<String>, all: &mut Vec<Element>) {
    let mut inside = false;
    match &node.data {
        NodeData::Element { name, attrs, template_contents, .. } => {
            let attributes = attrs.borrow();
            let attribute = |one: &html5ever::Attribute| (one.name.local.to_string(), one.value.to_string());
            all.push(Element {
                tag: name.local.to_string(),
                attributes: attributes.iter().map(attribute).collect(),
                text: text(node),
                within: within.clone(),
            });
            assert!(template_contents.borrow().is_none(), "no page has a template");
            within.push(name.local.to_string());
            inside = true;
        }
        NodeData::Comment { contents } => panic!("no page has a comment: {contents}"),
        NodeData::ProcessingInstruction { .. } => panic!("no page has an instruction"),
        NodeData::Document | NodeData::Doctype { .. } | NodeData::Text { .. } => {}
    }
    for child in node.children.borrow().iter() {
        walk(child, within, all);
    }
    if inside {
        within.pop();
    }
}

fn text(node: &Handle) -> String {
    let own = if let NodeData::Text { contents } = &node.data {
        contents.borrow().to_string()
    } else {
        String::new()
    };
    node.children.borrow().iter().fold(own, |told, child| told + &text(child))
}
