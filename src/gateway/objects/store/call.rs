//! The calls that are made to the store, and the permissions that they need. Pure.

use std::fmt;

/// A call to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// A multipart upload begins.
    Initiate,
    /// Its parts are listed.
    ListParts,
    /// It becomes an object.
    Complete,
    /// It is given up.
    Abort,
    /// A page of a bucket's objects.
    List,
    /// What is known of an object.
    Stat,
    /// Its bytes.
    Read,
    /// A copy of it inside the store.
    Rewrite,
    /// Its end.
    Delete,
    /// A bucket's configuration.
    Bucket,
    /// What we may do in a bucket.
    Permissions,
}

impl Call {
    /// Each of them.
    pub const ALL: [Self; 11] = [
        Self::Initiate,
        Self::ListParts,
        Self::Complete,
        Self::Abort,
        Self::List,
        Self::Stat,
        Self::Read,
        Self::Rewrite,
        Self::Delete,
        Self::Bucket,
        Self::Permissions,
    ];

    /// The permission that the call needs first; `None` where it needs none.
    #[must_use]
    pub fn needs(self) -> Option<Permission> {
        match self {
            Self::Initiate | Self::Complete => Some(Permission::CreateUpload),
            Self::ListParts => Some(Permission::ListParts),
            Self::Abort => Some(Permission::AbortUpload),
            Self::List => Some(Permission::List),
            Self::Stat | Self::Read => Some(Permission::Get),
            Self::Rewrite => Some(Permission::Create),
            Self::Delete => Some(Permission::Delete),
            Self::Bucket => Some(Permission::GetBucket),
            Self::Permissions => None,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Initiate => "begin an upload",
            Self::ListParts => "list an upload's parts",
            Self::Complete => "complete an upload",
            Self::Abort => "abort an upload",
            Self::List => "list a bucket",
            Self::Stat => "look at an object",
            Self::Read => "read an object",
            Self::Rewrite => "copy an object",
            Self::Delete => "delete an object",
            Self::Bucket => "look at a bucket",
            Self::Permissions => "ask for our permissions",
        })
    }
}

/// A permission in a bucket, as IAM names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// `storage.multipartUploads.create`
    CreateUpload,
    /// `storage.multipartUploads.listParts`
    ListParts,
    /// `storage.multipartUploads.abort`
    AbortUpload,
    /// `storage.objects.create`
    Create,
    /// `storage.objects.get`
    Get,
    /// `storage.objects.delete`; overwriting needs it as well.
    Delete,
    /// `storage.objects.list`
    List,
    /// `storage.buckets.get`
    GetBucket,
}

impl Permission {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::CreateUpload,
        Self::ListParts,
        Self::AbortUpload,
        Self::Create,
        Self::Get,
        Self::Delete,
        Self::List,
        Self::GetBucket,
    ];

    /// The name that IAM has for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CreateUpload => "storage.multipartUploads.create",
            Self::ListParts => "storage.multipartUploads.listParts",
            Self::AbortUpload => "storage.multipartUploads.abort",
            Self::Create => "storage.objects.create",
            Self::Get => "storage.objects.get",
            Self::Delete => "storage.objects.delete",
            Self::List => "storage.objects.list",
            Self::GetBucket => "storage.buckets.get",
        }
    }

    /// The permission that IAM has this name for.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.name() == name)
    }

    /// The permission that a refusal names, wherever it stands in the text.
    pub(super) fn told(text: &str) -> Option<Self> {
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
            .find_map(|word| Self::named(word.trim_end_matches('.')))
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_a_permission() {
        for (text, expected) in [
            ("a@b.iam does not have storage.objects.get access to it.", Some(Permission::Get)),
            ("Permission 'storage.multipartUploads.listParts' denied", Some(Permission::ListParts)),
            ("It needs storage.objects.delete.", Some(Permission::Delete)),
            ("storage.objects.getIamPolicy", None),
            ("", None),
        ] {
            assert_eq!(Permission::told(text), expected, "{text}");
        }
        for permission in Permission::ALL {
            assert_eq!(Permission::named(permission.name()), Some(permission));
        }
    }
}
