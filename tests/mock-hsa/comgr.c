/* A stand-in for libamd_comgr where the real one is not there: every call fails. What a runtime can do without a compiler still works: memory that no kernel
 * touches. Names: what libamdhip64 5.2.3 to 7.2.4 look up or link to. */
#define NAMES(X)                                                                                                                                           \
    X(action_data_count) X(action_data_get_data) X(action_info_get_isa_name) X(action_info_get_language) X(action_info_get_logging)                         \
    X(action_info_get_option_list_count) X(action_info_get_option_list_item) X(action_info_get_working_directory_path)                                      \
    X(action_info_set_bundle_entry_ids) X(action_info_set_device_lib_linking) X(action_info_set_isa_name) X(action_info_set_language)                       \
    X(action_info_set_logging) X(action_info_set_option_list) X(action_info_set_working_directory_path) X(create_action_info) X(create_data)                \
    X(create_data_set) X(data_set_add) X(data_set_remove) X(demangle_symbol_name) X(destroy_action_info) X(destroy_data_set) X(destroy_metadata)            \
    X(do_action) X(get_data) X(get_data_isa_name) X(get_data_kind) X(get_data_metadata) X(get_data_name) X(get_isa_count) X(get_isa_metadata)               \
    X(get_isa_name) X(get_mangled_name) X(get_metadata_kind) X(get_metadata_list_size) X(get_metadata_map_size) X(get_metadata_string)                      \
    X(index_list_metadata) X(iterate_map_metadata) X(iterate_symbols) X(lookup_code_object) X(map_name_expression_to_symbol_name)                           \
    X(metadata_lookup) X(populate_mangled_names) X(populate_name_expression_map) X(release_data) X(set_data) X(set_data_from_file_slice)                    \
    X(set_data_name) X(status_string) X(symbol_get_info) X(symbol_lookup)

#define FAIL(name)                                                                                                                                         \
    int amd_comgr_##name(void) { return 1; }
NAMES(FAIL)

void amd_comgr_get_version(unsigned long *major, unsigned long *minor) {
    *major = 2;
    *minor = 4;
}
