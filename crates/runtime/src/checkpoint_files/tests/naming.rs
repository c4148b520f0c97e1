use std::collections::BTreeSet;

use super::super::file_name;

#[test]
fn plain_ids_stay_as_they_are_and_the_rest_is_encoded() {
    let ids = [
        "deploy-api_v1.2",
        "team/deploy:7@main",
        ".hidden",
        "..",
        "größer 🚀",
        "100%",
        "a\0\n",
    ];
    insta::assert_snapshot!(ids.map(file_name).join("\n"), @"
    deploy-api_v1.2.json
    team%2Fdeploy%3A7%40main.json
    %2Ehidden.json
    %2E..json
    gr%C3%B6%C3%9Fer%20%F0%9F%9A%80.json
    100%25.json
    a%00%0A.json
    ");
}

#[test]
fn no_id_leads_out_of_the_folder() {
    for id in [
        "../../etc/passwd",
        "/etc/passwd",
        "..",
        ".",
        "a/../..",
        "\0/",
    ] {
        let name = file_name(id);
        assert!(!name.contains(['/', '\0']), "{name}");
        assert!(!name.starts_with('.'), "{name}");
    }
}

#[test]
fn long_names_are_cut_and_stay_apart() {
    let long = |last: char| format!("{}{last}", "/".repeat(127));
    let names = BTreeSet::from([long('a'), long('b'), long('/')].map(|id| file_name(&id)));
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|name| name.len() == 255), "{names:?}");
    assert_eq!(file_name(&"a".repeat(250)).len(), 255);
    assert_eq!(file_name(&"a".repeat(251)).len(), 255);
    assert_ne!(file_name(&"a".repeat(250)), file_name(&"a".repeat(251)));
}
