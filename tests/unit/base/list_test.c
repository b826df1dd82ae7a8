/* SPDX-License-Identifier: BSD-2-Clause */
#include "test.h"

#include "base/list.h"

struct item {
	int number;
	struct list link;
};

TEST(test_list_keeps_order)
{
	struct item items[4];
	struct list head;

	list_init(&head);
	EXPECT(list_is_empty(&head));
	for (int i = 0; i < 4; i++) {
		items[i].number = i;
		list_init(&items[i].link);
		EXPECT(!list_is_linked(&items[i].link));
		list_add_tail(&head, &items[i].link);
		EXPECT(list_is_linked(&items[i].link));
	}
	EXPECT(!list_is_empty(&head));
	for (int i = 0; i < 4; i++) {
		struct list *l = list_pop(&head);

		EXPECT_EQ(CONTAINER_OF(l, struct item, link)->number, i);
		EXPECT(!list_is_linked(l));
	}
	EXPECT(list_is_empty(&head));
}

TEST(test_list_removes_from_anywhere_and_twice)
{
	struct list head, links[3];

	for (int removed = 0; removed < 3; removed++) {
		list_init(&head);
		for (int i = 0; i < 3; i++)
			list_add_tail(&head, &links[i]);
		list_remove(&links[removed]);
		list_remove(&links[removed]);
		EXPECT(!list_is_linked(&links[removed]));
		for (int i = 0; i < 3; i++) {
			if (i != removed)
				EXPECT(list_pop(&head) == &links[i]);
		}
		EXPECT(list_is_empty(&head));
		EXPECT(head.prev == &head);
	}
}

TEST(test_list_push_is_taken_next)
{
	struct list head, links[4];

	list_init(&head);
	list_push(&head, &links[0]); /* of none it is the last too */
	EXPECT(head.prev == &links[0]);
	list_add_tail(&head, &links[1]);
	list_push(&head, &links[2]);
	EXPECT(list_is_linked(&links[2]));
	EXPECT(head.prev == &links[1]);
	EXPECT(list_pop(&head) == &links[2]);
	list_push(&head, &links[3]);
	list_push(&head, &links[2]);
	for (int i = 0; i < 4; i++) {
		static const int order[4] = { 2, 3, 0, 1 };

		EXPECT(list_pop(&head) == &links[order[i]]);
	}
	EXPECT(list_is_empty(&head));
	EXPECT(head.prev == &head);
}
