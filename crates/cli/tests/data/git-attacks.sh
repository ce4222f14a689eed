# Each case tries to make the user's next `git` run a program outside the sandbox. Every case has a
# copy of the same project to itself: a repository with a submodule called x/lib, a work tree in wt,
# a repository of its own in nested, and settings that name shared.config and nested-hooks. TOP is the
# directory with the projects, CASES the cases to try.

# Settings that run a program which leaves a mark for this case.
settings() {
    printf '[core]\n\tfsmonitor = %s/evil-%s\n' "$TOP" "$CASE"
}

hook() {
    mkdir -p "$(dirname "$1")"
    cp "$TOP/evil-$CASE" "$1"
}

case_commondir() { mkdir c; cp -r .git/. c/; settings >> c/config; echo ../c > .git/commondir; }
case_own_config() { settings >> .git/config; }
case_nested_config() { settings >> nested/.git/config; }
case_submodule_config() { settings >> .git/modules/x/lib/config; }
case_submodule_renamed() {
    mv .git/modules/x/lib .git/modules/x/old
    cp -r .git/modules/x/old .git/modules/x/lib
    settings >> .git/modules/x/lib/config
}
case_modules_renamed() {
    mv .git/modules .git/old
    cp -r .git/old .git/modules
    settings >> .git/modules/x/lib/config
}
case_config_worktree() { settings > .git/config.worktree; }
case_config_of_a_worktree() { settings > .git/worktrees/wt/config.worktree; }
case_commondir_of_a_worktree() {
    cp -r .git c
    settings >> c/config
    rm -f .git/worktrees/wt/commondir
    echo "$PWD/c" > .git/worktrees/wt/commondir
}
case_gitfile_in_place() { mv .git g; settings >> g/config; echo 'gitdir: g' > .git; }
case_link_in_place() { mv .git g; settings >> g/config; ln -s g .git; }
case_parent_renamed() { mv nested n; cp -r n nested; settings >> nested/.git/config; }
case_project_renamed() {
    cd ..
    mv "$CASE" moved-project
    cp -r moved-project "$CASE"
    settings >> "$CASE/.git/config"
}
case_submodule_gitfile() {
    cp -r .git/modules/x/lib g
    printf '[core]\n\tworktree = ../lib\n' >> g/config
    settings >> g/config
    rm -f lib/.git
    echo 'gitdir: ../g' > lib/.git
}
case_worktree_gitfile() {
    cp -r .git g
    settings >> g/config
    rm -f wt/.git
    echo 'gitdir: ../g' > wt/.git
}
case_bare_repository() {
    cp -r .git b
    printf '[core]\n\tworktree = ..\n' >> b/config
    settings >> b/config
}
case_bare_by_commondir() {
    mkdir b c
    cp -r .git/. c/
    printf '[core]\n\tworktree = ..\n' >> c/config
    settings >> c/config
    echo 'ref: refs/heads/main' > b/HEAD
    echo ../c > b/commondir
}
case_new_repository() { cp -r nested new; settings >> new/.git/config; }
case_in_packages() { mkdir -p node_modules/p; cp -r nested/. node_modules/p/; settings >> node_modules/p/.git/config; }
case_new_hook() { hook .git/hooks/pre-commit; }
case_hooks_renamed() { mv .git/hooks .git/h; hook .git/hooks/pre-commit; }
case_submodule_hook() { hook .git/modules/x/lib/hooks/pre-commit; }
case_hooks_path() { hook nested-hooks/pre-commit; }
case_hooks_path_renamed() { mv nested-hooks h; hook nested-hooks/pre-commit; }
case_included_settings() { settings >> shared.config; }
case_included_replaced() { mv shared.config s; settings > shared.config; }
case_second_name() { ln .git/config second && settings >> second; }
case_second_name_of_nested() { ln nested/.git/config second && settings >> second; }
case_hidden_from_search() { cp -r nested deep; settings >> deep/.git/config; chmod 000 deep; }

for CASE in $CASES; do
    (cd "$TOP/$CASE" && "$CASE") > /dev/null 2>&1
done
echo attacks over
