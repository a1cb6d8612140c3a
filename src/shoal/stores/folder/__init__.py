"""The embedded store: a folder.

store           `FolderStore`: the store as others see it
directory       the files in the folder, and which process owns it
control_socket  changes that the owner carries out for other processes
pages           the archived pages of a crawl
checks          findings about the folder, for `shoal doctor`
"""
