//! The browser under test control against small pages of these tests' own: everything that it tells is seen once as it is,
//! and once as it is not.

mod ends;
mod hostile;
mod pages;
mod site;
mod using;
