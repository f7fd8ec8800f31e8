//! The README's table of topologies is that of the generators.

#[test]
fn the_readme_explains_the_form_of_every_kind() {
    let readme = include_str!("../../README.md");
    let table: Vec<&str> = readme
        .split("\n## ")
        .find(|section| section.starts_with("Topologies"))
        .expect("a section of topologies")
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .collect();
    let stated: Vec<&str> = table
        .iter()
        .flat_map(|cell| cell.split(", "))
        .filter_map(|name| name.strip_prefix('`')?.strip_suffix('`'))
        .collect();
    assert_eq!(stated, topologies::forms());
}
