# `cmake --install`: the program, its module of Python, manual pages, completion and licences,
# the pages (help texts name them: docs/operate/status.md) and the examples that they name. With ATP_SERVICES
# (the preset "package") also systemd's units and their configuration, at absolute paths, and `cpack`
# makes the Debian package of all of it. tools/package does everything.

include(GNUInstallDirs)
option(ATP_SERVICES "Install systemd units and /etc/atp; for packages" OFF)

install(TARGETS atp RUNTIME)
install(CODE "
  set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  execute_process(COMMAND \"$<TARGET_FILE:atp>\" help --install \"\${prefix}\" COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages \"\${prefix}/share/man/man1/atp*.1\")
  execute_process(COMMAND gzip --best --no-name --force \${pages} COMMAND_ERROR_IS_FATAL ANY)
  file(MAKE_DIRECTORY \"\${prefix}/share/doc/atp\")
  execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/tools/licences\"
                  OUTPUT_FILE \"\${prefix}/share/doc/atp/copyright\" COMMAND_ERROR_IS_FATAL ANY)
")
# `atp plan import` runs this with any Python (atp/cli/plan/python_commands.cc).
install(FILES python/atp/__init__.py DESTINATION share/atp/python/atp)
install(DIRECTORY python/atp/topology DESTINATION share/atp/python/atp FILES_MATCHING PATTERN "*.py"
        PATTERN __pycache__ EXCLUDE)
# The folders are the repository's, so the pages' links to each other work.
install(DIRECTORY examples/clusters examples/models DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(FILES examples/01_all_reduce.cc examples/02_torch_ddp.py examples/03_elastic_ddp.py
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY deploy/slurm deploy/kubernetes DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy USE_SOURCE_PERMISSIONS)
install(FILES deploy/Containerfile DESTINATION ${CMAKE_INSTALL_DOCDIR}/deploy)
install(FILES README.md CONTRIBUTING.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(NOT ATP_SERVICES)
  return()
endif()

install(FILES deploy/systemd/atp.service deploy/systemd/atp-switch@.service deploy/systemd/atp-server@.service
        DESTINATION lib/systemd/system)
install(FILES deploy/etc/switch-main.env deploy/etc/server-main.env DESTINATION /etc/atp)
install(FILES deploy/etc/atp.default DESTINATION /etc/default RENAME atp)

set(CPACK_GENERATOR DEB)
set(CPACK_SET_DESTDIR ON)
set(CPACK_PACKAGE_CONTACT "the maintainers of atp <atp@localhost>")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "The program atp: switches and servers that sum gradients on their way through the\n network, what starts and watches them, and the planner for tensor parallelism.")
# dpkg-shlibdeps finds the oldest version of the C library that has all symbols the program uses.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3 (>= 3.9)")
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_STRIP_FILES ON)
file(WRITE ${PROJECT_BINARY_DIR}/conffiles
     "/etc/atp/switch-main.env\n/etc/atp/server-main.env\n/etc/default/atp\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_BINARY_DIR}/conffiles ${PROJECT_SOURCE_DIR}/deploy/debian/postinst
    ${PROJECT_SOURCE_DIR}/deploy/debian/prerm ${PROJECT_SOURCE_DIR}/deploy/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
