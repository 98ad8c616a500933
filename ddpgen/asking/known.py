"""The options that ddpgen knows by name, because its commands are about them.

What else ddpgen has to know about a question stands beside the question in copier.yml, under
`ddpgen:`. A test finds every other name of an option in ddpgen's source.
"""

# `ddpgen new PATH` proposes the path's name; without PATH the project's folder has this name.
PROJECT_NAME = "project_name"
# A set of launch files is for one cluster, `ddpgen launch CLUSTER`, and a site is one.
CLUSTERS = "clusters"
# `ddpgen launch --list` tells sets apart by it, and one node has no network to other nodes.
NODES = "nodes"
# Each set of launch files is a folder of its own. Updates find the sets by it.
LAUNCH_FOLDER = "launch_folder"
# The value of LAUNCH_FOLDER for the launch files that the project itself has.
MAIN_FOLDER = "launch"
